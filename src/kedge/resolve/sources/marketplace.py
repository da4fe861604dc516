"""Items of a marketplace: a folder, or the same files at a URL.

`index.json` lists the items: {"items": [{"id", "name", "type", "path"}, ...]}, with paths relative to the index. An
entry may also have `version` and `author`, `isPrivate: true` (for its author only) and `official: true` (preferred
among items of the same name). A folder without an index has one item per file, named after the file, in folders named
after the types.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin

from kedge.errors import InputError
from kedge.resolve.sources.base import FORBIDDEN, INVALID, NOT_FOUND, UNKNOWN, FetchedDocument, Source, Unavailable
from kedge.resolve.sources.files import read
from kedge.spec import yaml
from kedge.spec.addresses import ANY_TYPE, BY_ID, ITEM_TYPES
from kedge.spec.files import decode

INDEX = "index.json"
_SUFFIXES = (".yaml", ".yml")


class IndexItem(NamedTuple):
    """One item of the index."""

    id: str
    name: str
    path: str
    type: str | None = None
    version: str | None = None
    author: str | None = None
    private: bool = False
    official: bool = False


class Marketplace:
    """One marketplace for one user. `read` returns the bytes of one of its files by path; `scan` finds the items if
    there is no index."""

    def __init__(
        self, where: str, user: str, read: Callable[[str], bytes], scan: Callable[[], Iterator[IndexItem]] | None = None
    ) -> None:
        self._where = where
        self._user = user
        self._read = read
        self._scan = scan
        self._entries: tuple[IndexItem, ...] | None = None

    def fetch(self, place: str) -> FetchedDocument:
        """The item at `name/mnist`, `data/mnist` or `itemId/7`. Unavailable: none, several, or a private one."""
        entry = self._choose(place)
        origin = f"{self._where.rstrip('/')}/{entry.path}"
        return FetchedDocument(f"marketplace://{entry.id}", origin, self._read(entry.path), version=entry.version)

    def close(self) -> None:
        pass

    def _choose(self, place: str) -> IndexItem:
        kind, _, name = place.partition("/")
        found = [entry for entry in self._index() if self._matches(entry, kind, name)]
        readable = [entry for entry in found if not entry.private or entry.author == self._user]
        if not found:
            raise Unavailable(f"the marketplace {self._where} has no such item", NOT_FOUND)
        if not readable:
            raise Unavailable("it is private", FORBIDDEN)
        for chosen in (
            readable,
            [entry for entry in readable if entry.author == self._user],
            [entry for entry in readable if entry.official],
        ):
            if len(chosen) == 1:
                return chosen[0]
        ids = ", ".join(f"marketplace://prerequisites/itemId/{quote(entry.id, safe='')}" for entry in readable)
        raise Unavailable(f"it is ambiguous; write one of {ids}", INVALID)

    def _matches(self, entry: IndexItem, kind: str, name: str) -> bool:
        if kind == BY_ID:
            return entry.id == name
        return entry.name == name and (kind == ANY_TYPE or kind == (entry.type or self._type_in_document(entry)))

    def _type_in_document(self, entry: IndexItem) -> str | None:
        try:
            value = yaml.read(decode(self._read(entry.path), entry.path), entry.path).value
        except InputError:
            return None
        return value.get("type") if isinstance(value.get("type"), str) else None

    def _index(self) -> tuple[IndexItem, ...]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def _load(self) -> tuple[IndexItem, ...]:
        try:
            data = self._read(INDEX)
        except Unavailable as error:
            if error.code != NOT_FOUND:
                raise
            if self._scan is None:
                raise Unavailable(f"there is no marketplace at {self._where}: {error.message}", UNKNOWN) from None
            return tuple(self._scan())
        try:
            items = json.loads(data)["items"]
            json.dumps(items, ensure_ascii=False).encode()  # raises ValueError for lone surrogates
            return tuple(_entry(item) for item in items)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Unavailable(f"the index of the marketplace {self._where} is invalid: {error}", UNKNOWN) from None


def folder(path: str, user: str) -> Marketplace:
    """The marketplace in a folder. Unavailable: there is no such folder."""
    if not os.path.isdir(path):
        raise Unavailable(f"there is no marketplace: {path} is not a folder", UNKNOWN)
    root = os.path.join(os.path.realpath(path), "")

    def inside(name: str) -> bytes:
        full = os.path.join(path, _checked(name))
        if not os.path.realpath(full).startswith(root):
            raise Unavailable(f"{full} is a link that leads out of the marketplace", UNKNOWN)
        return read(full, NOT_FOUND)

    return Marketplace(path, user, inside, lambda: _scanned(path))


def remote(url: str, user: str, http: Source) -> Marketplace:
    """The marketplace whose index is at `url`, if that ends with .json, or in the folder at `url`."""
    base = url if url.endswith("/") else url.rpartition("/")[0] + "/" if url.endswith(".json") else url + "/"
    index = url if url.endswith(".json") else base + INDEX

    def below(name: str) -> bytes:
        return http.fetch(index if name == INDEX else urljoin(base, quote(_checked(name)))).data

    return Marketplace(base, user, below)


def _entry(item: dict[str, Any]) -> IndexItem:
    version = item.get("version", item.get("updatedAt"))
    return IndexItem(
        id=str(item["id"]),
        name=str(item["name"]),
        path=str(item["path"]),
        type=item.get("type"),
        version=None if version is None else str(version),
        author=item.get("author"),
        private=item.get("isPrivate") is True,
        official=item.get("official") is True,
    )


def _checked(path: str) -> str:
    """A path from the index, which must not lead to other files of this machine."""
    if path.startswith("/") or "\\" in path or ":" in path or ".." in path.split("/") or "\0" in path:
        raise Unavailable(f"{path!r} in the index is not a path inside the marketplace", UNKNOWN)
    return path


def _scanned(path: str) -> Iterator[IndexItem]:
    """One entry for every YAML file. If a name is not unique, the id is the path without the suffix."""
    found = list(_files(path))
    names = Counter(os.path.splitext(os.path.basename(file))[0] for file in found)
    for file in found:
        place, name = os.path.splitext(file)[0], os.path.splitext(os.path.basename(file))[0]
        kind = os.path.basename(os.path.dirname(file))
        yield IndexItem(name if names[name] == 1 else place, name, file, kind if kind in ITEM_TYPES else None)


def _files(path: str) -> Iterator[str]:
    for here, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(files):
            if file.endswith(_SUFFIXES):
                yield os.path.relpath(os.path.join(here, file), path)
