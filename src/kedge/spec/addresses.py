"""How a prerequisite is named: by a plain name, or by an address somewhere else.

    mnist                                the job, its reference_prerequisites, or what stands beside the item that asks
    ./data.yaml  ../x.yaml  /a/b.yaml    a file, from the file that names it
    https://host/x.yaml                  a document; http:// too
    marketplace://name/mnist             an item of the marketplace by its name; data/, script/, output/, storage/
                                         narrow it down to a type
    marketplace://prerequisites/itemId/7 an item by its id

`#name` at the end of a file or document picks one item out of a list.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

FILE, HTTP, MARKETPLACE = "file", "http", "marketplace"
ITEM_TYPES = ("data", "script", "output", "storage")
ANY_TYPE, BY_ID = "name", "itemId"
FORMS = "A reference is a name, ./file.yaml, https://…, marketplace://name/…, or marketplace://prerequisites/itemId/…"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class ItemAddress(NamedTuple):
    """A place outside of the job file. `kind` is FILE, HTTP or MARKETPLACE; `place` a path, a URL, or `name/mnist`
    (decoded, the first part is ANY_TYPE, BY_ID or one of ITEM_TYPES). `fragment` picks an item in a list.
    """

    kind: str
    place: str
    fragment: str = ""


def parse(reference: str) -> ItemAddress | None:
    """The address that a reference is; None for a plain name. ValueError for what is neither."""
    if reference.startswith(("./", "../", "/")):
        place, _, fragment = reference.partition("#")
        return ItemAddress(FILE, place, fragment)
    if not _SCHEME.match(reference):
        return None
    scheme, _, rest = reference.partition("://")
    match scheme.lower():
        case "marketplace":
            return _marketplace(rest)
        case "http" | "https":
            return _http(reference)
    raise ValueError(reference)


def by_name(name: str) -> str:
    """The reference to the marketplace's item of that name."""
    return f"marketplace://{ANY_TYPE}/{quote(name, safe='')}"


def _marketplace(rest: str) -> ItemAddress:
    parts = [unquote(part) for part in rest.split("/")]
    if all(parts) and "\0" not in rest:
        match parts:
            case [kind, name] if kind in (ANY_TYPE, *ITEM_TYPES):
                return ItemAddress(MARKETPLACE, f"{kind}/{name}")
            case ["prerequisites", "itemId", item]:
                return ItemAddress(MARKETPLACE, f"{BY_ID}/{item}")
    raise ValueError(rest)


def _http(reference: str) -> ItemAddress:
    parts = urlsplit(reference)
    # A name and a password would be sent, and stand in lock files and messages.
    if not parts.hostname or "@" in parts.netloc or not reference.isprintable() or " " in reference:
        raise ValueError(reference)
    _ = parts.port  # ValueError for one that is no number
    return ItemAddress(HTTP, parts._replace(fragment="").geturl(), unquote(parts.fragment))
