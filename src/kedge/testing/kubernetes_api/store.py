"""The objects of the server, their versions, and the changes that watches read.

Stored objects are never changed in place: each change stores a new one, so that readers need no copy.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json, not_found
from kedge.testing.kubernetes_api.resources import ResourceKind
from kedge.testing.kubernetes_api.selectors import Match

Key = tuple[ResourceKind, str, str]  # with namespace and name
LogTexts = dict[tuple[str, str, str], str]  # by namespace, pod and container


class StoreChange(NamedTuple):
    """One change of an object; `before` is None for a new one."""

    version: int
    kind: ResourceKind
    type: str  # ADDED, MODIFIED, DELETED
    object: Json
    before: Json | None


def timestamp(seconds: float = 0.0) -> str:
    """Now, or that many seconds from now, as the API writes times."""
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ObjectStore:
    """Thread-safe. `lock` is also a condition that is notified of each change. `after` are called with each change,
    under the lock; they may change objects themselves. `kept` changes stay readable for watches."""

    def __init__(self, kept: int = 5000) -> None:
        self.lock = threading.Condition(threading.RLock())
        self.after: list[Callable[[StoreChange], None]] = []
        self.version = 0
        self._kept = kept
        self._objects: dict[Key, Json] = {}
        self._changes: list[StoreChange] = []  # their versions have no gaps
        self._uids: set[str] = set()
        self._owned: dict[str, set[Key]] = {}  # by the owner's uid

    def get(self, kind: ResourceKind, namespace: str, name: str) -> Json:
        """FakeRefusal 404."""
        found = self.find(kind, namespace, name)
        if found is None:
            raise not_found(kind.resource, name)
        return found

    def find(self, kind: ResourceKind, namespace: str, name: str) -> Json | None:
        """The object, or None."""
        with self.lock:
            return self._objects.get((kind, namespace, name))

    def matching(self, kind: ResourceKind, namespace: str, match: Match) -> tuple[list[Json], int]:
        """The objects in order of their names, and the version of this list. An empty namespace is all of them."""
        with self.lock:
            keys = sorted((k for k in self._objects if k[0] == kind and namespace in ("", k[1])), key=lambda k: k[1:])
            return [self._objects[key] for key in keys if match(self._objects[key])], self.version

    def within(self, namespace: str) -> list[Key]:
        """All objects of a namespace."""
        with self.lock:
            return [key for key in self._objects if key[1] == namespace]

    def with_finalizer(self, finalizer: str) -> list[tuple[ResourceKind, Json]]:
        """All objects that carry it."""
        with self.lock:
            return [
                (k[0], obj) for k, obj in self._objects.items() if finalizer in obj["metadata"].get("finalizers", ())
            ]

    def exists(self, uid: str) -> bool:
        """Whether any object has it."""
        return uid in self._uids

    def owned_by(self, uid: str) -> list[tuple[Key, Json]]:
        """The objects that name it as an owner."""
        with self.lock:
            return [(key, self._objects[key]) for key in self._owned.get(uid, ())]

    def add(self, kind: ResourceKind, obj: Json) -> Json:
        """Store a new object, which is completed. FakeRefusal 409: the name is taken."""
        meta = obj["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        with self.lock:
            if key in self._objects:
                raise FakeRefusal(409, f'{kind.resource} "{meta["name"]}" already exists', "AlreadyExists")
            done = {**meta, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp(), "generation": 1}
            return self._write(key, "ADDED", {**obj, "metadata": done}, None)

    def put(self, kind: ResourceKind, obj: Json) -> Json:
        """Store a changed object in place of the one with its name. Nothing happens if it is the same."""
        key = (kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        with self.lock:
            before = self._objects[key]
            return before if obj == before else self._write(key, "MODIFIED", obj, before)

    def remove(self, kind: ResourceKind, namespace: str, name: str) -> Json | None:
        """Forget an object; None if it was not there."""
        with self.lock:
            before = self._objects.get((kind, namespace, name))
            return before and self._write((kind, namespace, name), "DELETED", before, before)

    def compact(self) -> None:
        """Forget all changes so far: watches from an older version than now are refused as expired."""
        with self.lock:
            self._changes.clear()

    def changes_after(self, version: int, wait_sec: float) -> list[StoreChange]:
        """What changed since; waits for something if nothing has. FakeRefusal 410: that is forgotten."""
        with self.lock:
            if version >= self.version:
                self.lock.wait(wait_sec)
            first = self.version - len(self._changes)
            if version < first:
                raise FakeRefusal(410, f"too old resource version: {version} ({first})")
            return self._changes[version - first :] if version < self.version else []

    def _write(self, key: Key, how: str, obj: Json, before: Json | None) -> Json:
        self.version += 1
        kind = key[0]
        new = {
            "apiVersion": kind.api_version, "kind": kind.kind, **obj,
            "metadata": {**obj["metadata"], "resourceVersion": str(self.version)},
        }  # fmt: skip
        if how == "DELETED":
            del self._objects[key]
            self._uids.discard(new["metadata"]["uid"])
        else:
            self._objects[key] = new
            self._uids.add(new["metadata"]["uid"])
        self._own(key, before, new if how != "DELETED" else None)
        change = StoreChange(self.version, kind, how, new, before)
        self._changes.append(change)
        if len(self._changes) > 2 * self._kept:
            del self._changes[: -self._kept]
        for listener in self.after:
            listener(change)
        self.lock.notify_all()
        return self._objects.get(key, new)

    def _own(self, key: Key, before: Json | None, after: Json | None) -> None:
        for uid in owners(before) - owners(after):
            self._owned[uid].discard(key)
        for uid in owners(after):
            self._owned.setdefault(uid, set()).add(key)


def owners(obj: Json | None) -> set[str]:
    """The uids of its owners."""
    return {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()} if obj else set()
