"""References to prerequisites: a plain name, or an address outside the job file.

    mnist                                an item of the job, of its reference_prerequisites, or of the list that
                                         holds the referring item
    ./data.yaml  ../x.yaml  /a/b.yaml    a file, relative to the file that refers to it
    https://host/x.yaml                  a document; http:// works too
    marketplace://name/mnist             a marketplace item by name; data/, script/, output/ or storage/ in place of
                                         name/ restricts its type
    marketplace://prerequisites/itemId/7 a marketplace item by id

`#name` at the end of a file or document address selects one item of a list.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from kedge.late_patterns import late_pattern

FILE, HTTP, MARKETPLACE = "file", "http", "marketplace"
ITEM_TYPES = ("data", "script", "output", "storage")
ANY_TYPE, BY_ID = "name", "itemId"
FORMS = "A reference is a name, ./file.yaml, https://…, marketplace://name/…, or marketplace://prerequisites/itemId/…"
_SCHEME = late_pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")


class ItemAddress(NamedTuple):
    """An address outside the job file. `kind` is FILE, HTTP or MARKETPLACE. `place` is a path, a URL, or decoded text
    like `name/mnist`, whose first part is ANY_TYPE, BY_ID or one of ITEM_TYPES. `fragment` selects an item of a list.
    """

    kind: str
    place: str
    fragment: str = ""


def parse(reference: str) -> ItemAddress | None:
    """Parse a reference; None for a plain name. ValueError: it is neither a name nor an address."""
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
    """The reference to the marketplace item with this name."""
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
    # A user name and password would be sent, and would appear in lock files and messages.
    if not parts.hostname or "@" in parts.netloc or not reference.isprintable() or " " in reference:
        raise ValueError(reference)
    _ = parts.port  # raises ValueError if the port is not a number
    return ItemAddress(HTTP, parts._replace(fragment="").geturl(), unquote(parts.fragment))
