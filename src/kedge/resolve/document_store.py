"""Gets the documents at addresses: from their source, compared with the lock file, or offline from the cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from kedge.lazy_modules import SOURCES, load_place
from kedge.resolve import lock_file
from kedge.resolve.document_cache import DocumentCache, digest
from kedge.resolve.lock_file import Lock, Locked
from kedge.resolve.model import RunRecord
from kedge.resolve.sources.base import INVALID, UNKNOWN, FetchedDocument, Source, Unavailable
from kedge.spec.addresses import BY_ID, FILE, HTTP, MARKETPLACE, ItemAddress

ALL = "all"
MAX_NETWORK_DOCUMENTS = 20  # that one job may fetch
_SHOWN_CHANGES = 6  # lines of a diff


class Settings:
    """Where a job's documents may come from. The lock file is the one beside `job_file`.

    `marketplace` is a folder or a URL. `hosts` are the only hosts that may be contacted; empty means all. With
    `record`, all documents and the lock come from that.
    """

    def __init__(
        self,
        job_file: str,
        user: str,
        marketplace: str | None,
        hosts: tuple[str, ...],
        record: RunRecord | None = None,
    ) -> None:
        self.folder = os.path.dirname(job_file)
        self.lock_file = "" if record else lock_file.lock_path(job_file)
        self.record = record
        self.user = user
        self.marketplace = marketplace
        self.hosts = frozenset(host.lower() for host in hosts) or None


class DocumentStore:
    """The documents of one job. `notes` are for its user; `lock` is the content of a new lock file."""

    def __init__(
        self, settings: Settings, cache: DocumentCache, offline: bool = False, update: tuple[str, ...] = ()
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._offline = offline
        self._update = update
        self.old = settings.record.lock if settings.record else lock_file.load(settings.lock_file)
        self.notes: list[str] = []
        self._items: dict[str, Locked] = {}
        self._files: dict[str, str] = {}
        self._documents: dict[tuple[str, str], FetchedDocument | Unavailable] = {}  # each place is fetched only once
        self._sources: dict[str, Source] = {}
        self._network_documents = 0

    def __enter__(self) -> DocumentStore:
        return self

    def __exit__(self, *error: object) -> None:
        for source in self._sources.values():
            source.close()

    @property
    def lock_file(self) -> str:
        """The path of the job's lock file, whether it exists or not; empty if the job cannot have one."""
        return self._settings.lock_file

    @property
    def lock(self) -> Lock:
        """The current content behind every name, with the commits and digests of the old lock file."""
        return replace(self.old or lock_file.EMPTY, items=self._items, files=self._files)

    @property
    def documents(self) -> dict[str, bytes]:
        """Every document so far, by SHA-256."""
        found = (each for each in self._documents.values() if isinstance(each, FetchedDocument))
        return {digest(document.data): document.data for document in found}

    def document(self, address: ItemAddress, folder: str | None) -> FetchedDocument:
        """The document at an address; relative paths start in `folder`. Unavailable: there is none."""
        place = address.place
        if address.kind == FILE:
            if folder is None:
                raise Unavailable("an item from another machine must not refer to files of this machine")
            place = os.path.normpath(os.path.join(folder, place))
        request = (address.kind, place)
        if request not in self._documents:
            try:
                self._documents[request] = self._local(place) if address.kind == FILE else self._remote(address)
            except Unavailable as error:
                self._documents[request] = error
        found = self._documents[request]
        if isinstance(found, Unavailable):
            raise found
        return found

    def note_version(self, address: ItemAddress, version: str) -> None:
        """Record in the lock the version that a document gives itself."""
        name = key(address)
        if name in self._items:
            self._items[name] = replace(self._items[name], version=version)

    def _local(self, place: str) -> FetchedDocument:
        document = self._recorded(place) if self._settings.record else self._source(FILE).fetch(place)
        name = self._relative_to_lock(document.origin)
        sha256 = self._files[name] = digest(document.data)
        if self.old and self.old.files.get(name, sha256) != sha256:
            self.notes.append(f"{document.origin} has changed since {self._lock_name} was written")
        return document

    def _recorded(self, place: str) -> FetchedDocument:
        """A file of this machine as it was when the recorded run was submitted."""
        sha256 = self.old.files.get(self._relative_to_lock(place)) if self.old else None
        data = self._cache.get(sha256) if sha256 else None
        if data is None:
            raise Unavailable(self._unrecorded(place))
        return FetchedDocument(os.path.realpath(place), place, data, folder=os.path.dirname(place))

    def _unrecorded(self, name: str) -> str:
        run = self._settings.record.run if self._settings.record else ""
        return f"{name} is not in the record of the run {run}: it held a secret, or the record is damaged"

    def _relative_to_lock(self, path: str) -> str:
        """A path relative to the lock file's folder, so that it does not depend on the working directory."""
        return os.path.relpath(path, self._settings.folder or ".")

    def _remote(self, address: ItemAddress) -> FetchedDocument:
        name = key(address)
        locked = self.old.items.get(name) if self.old else None
        if self._offline:
            document = self._cached(name, locked)
        else:
            document = self._fetched(address, locked)
            self._cache.put(document.data)
            self._compare(name, locked, document)
        keep = is_url(document.origin) or self._offline
        origin = document.origin if keep else self._relative_to_lock(document.origin)
        self._items[name] = Locked(document.identity, origin, digest(document.data), document.version)
        return document

    def _cached(self, name: str, locked: Locked | None) -> FetchedDocument:
        data = self._cache.get(locked.sha256) if locked else None
        if data is None and self._settings.record:
            raise Unavailable(self._unrecorded(name))
        if locked is None and not self._lock_name:
            raise Unavailable("--offline needs a lock file, and a job from stdin has none", UNKNOWN)
        if locked is None:
            raise Unavailable(f"--offline needs it in {self._lock_name}; run 'kedge lock' to add it", UNKNOWN)
        if data is None:
            raise Unavailable("it is not in the cache; run once without --offline", UNKNOWN)
        return FetchedDocument(locked.identity, locked.source, data, version=locked.version)

    def _fetched(self, address: ItemAddress, locked: Locked | None) -> FetchedDocument:
        if self._is_on_network(address):
            self._network_documents += 1
            if self._network_documents > MAX_NETWORK_DOCUMENTS:
                raise Unavailable(f"a job may use at most {MAX_NETWORK_DOCUMENTS} documents from other machines")
        try:
            return self._source(address.kind).fetch(address.place)
        except Unavailable as error:
            if error.code != UNKNOWN or locked is None or self._cache.get(locked.sha256) is None:
                raise
            message = f"{error.message}; use --offline to take the locked version from the cache"
            raise Unavailable(message, UNKNOWN) from error

    def _is_on_network(self, address: ItemAddress) -> bool:
        return address.kind == HTTP or is_url(self._settings.marketplace or "")

    def _compare(self, name: str, locked: Locked | None, document: FetchedDocument) -> None:
        if self.old is None:
            return
        if locked is None:
            self.notes.append(f"{name} is not in {self._lock_name} yet; run 'kedge lock' to add it")
        elif locked.sha256 != digest(document.data) and not self._may_change(name):
            raise Unavailable(self._change(name, locked, document), INVALID)

    def _may_change(self, name: str) -> bool:
        return any(given in _names(name) for given in self._update)

    def unused(self, others: Iterable[str]) -> list[str]:
        """A message for each --update-lock name that matches neither a fetched document nor a name in `others`."""
        known = {ALL}.union(others, *map(_names, self._items))
        return [
            f"--update-lock {given}: the job uses nothing of that name from outside its file"
            for given in self._update
            if given not in known
        ]

    def _change(self, name: str, locked: Locked, document: FetchedDocument) -> str:
        is_same = document.version in (None, locked.version)
        versions = "" if is_same else f" (version {locked.version} is now {document.version})"
        before = self._cache.get(locked.sha256)
        shown = _differences(before, document.data) if before is not None else ["the old content is not in the cache"]
        accept = f"accept the change with --update-lock {name.rpartition('/')[2]}"
        return "\n    ".join((f"it has changed since {self._lock_name} was written{versions}; {accept}", *shown))

    @property
    def _lock_name(self) -> str:
        return os.path.basename(self._settings.lock_file)

    def _source(self, kind: str) -> Source:
        """The source of a kind. It is loaded on first use, because most jobs need none and HTTP is slow to import."""
        if kind not in self._sources:
            self._sources[kind] = self._load_source(kind)
        return self._sources[kind]

    def _load_source(self, kind: str) -> Source:
        module: Any = load_place(SOURCES[kind])
        if kind == FILE:
            return module.Files()  # type: ignore[no-any-return]
        if kind == HTTP:
            hosts = self._settings.hosts
            return module.Http(hosts)  # type: ignore[no-any-return]
        where = self._settings.marketplace
        if where is None:
            options = (
                "--marketplace DIR|URL|NAME, KEDGE_MARKETPLACE, extras.kedge.marketplace or marketplace in the settings"
            )
            raise Unavailable(f"no marketplace is configured; set {options}")
        if is_url(where):
            return module.remote(where, self._settings.user, self._source(HTTP))  # type: ignore[no-any-return]
        return module.folder(where, self._settings.user)  # type: ignore[no-any-return]


def is_url(where: str) -> bool:
    """Whether a location is a URL rather than a path."""
    return where.startswith(("http://", "https://"))


def key(address: ItemAddress) -> str:
    """The key of an address in a lock file."""
    if address.kind != MARKETPLACE:
        return address.place
    folder = "prerequisites/" if address.place.startswith(f"{BY_ID}/") else ""
    return f"marketplace://{folder}{address.place}"


def _names(key: str) -> tuple[str, ...]:
    """The names that a user may give for an entry of a lock file."""
    last = key.rpartition("/")[2]
    return ALL, key, last, os.path.splitext(last)[0]


def _differences(old: bytes, new: bytes) -> list[str]:
    import difflib  # slow to load, and needed only for a document that has changed

    before, after = (data.decode(errors="replace").splitlines() for data in (old, new))
    lines = (line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[:3] not in ("---", "+++"))
    shown = list(islice((line for line in lines if not line.startswith("@@")), _SHOWN_CHANGES + 1))
    return [*shown[:_SHOWN_CHANGES], *(["…"] if len(shown) > _SHOWN_CHANGES else [])]
