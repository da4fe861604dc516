"""A watch: the changes of objects as they happen, one JSON object a line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json
from kedge.testing.kubernetes_api.resources import FakePlace, ResourceKind
from kedge.testing.kubernetes_api.selectors import Match
from kedge.testing.kubernetes_api.store import ObjectStore, StoreChange

_TIMEOUT_SEC = 1800.0
_NAP_SEC = 0.5  # how soon a watch notices that the server ends


def events(
    store: ObjectStore,
    place: FakePlace,
    query: dict[str, str],
    match: Match,
    bookmark_sec: float,
    ends: Callable[[], bool],
) -> Iterator[bytes]:
    """The lines of a watch, until its time is over or `ends`."""
    given = query.get("resourceVersion", "")
    until = time.monotonic() + float(query.get("timeoutSeconds") or _TIMEOUT_SEC)
    bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
    at = int(given or 0)
    if at == 0:
        items, at = store.matching(place.kind, place.namespace, match)
        yield from (_line("ADDED", item) for item in items)
    next_bookmark = time.monotonic() + bookmark_sec
    while not ends():
        now = time.monotonic()
        if now >= until:
            break
        try:
            changes = store.changes_after(at, max(0.0, min(until - now, next_bookmark - now, _NAP_SEC)))
        except FakeRefusal as refusal:
            yield _line("ERROR", refusal.status())
            return
        for change in changes:
            at = change.version
            if line := _seen(change, place, match):
                yield line
        if bookmarks and time.monotonic() >= next_bookmark:
            next_bookmark = time.monotonic() + bookmark_sec
            yield _bookmark(place.kind, at)
    if bookmarks:
        yield _bookmark(place.kind, max(at, store.version if not store.changes_after(at, 0) else at))


def _seen(change: StoreChange, place: FakePlace, match: Match) -> bytes:
    """How this watch sees a change: an object that begins or ceases to match comes or goes."""
    if change.kind != place.kind or place.namespace not in ("", change.object["metadata"].get("namespace", "")):
        return b""
    now, before = match(change.object), change.before is not None and match(change.before)
    if change.type == "DELETED":
        return _line("DELETED", change.object) if before else b""
    if now:
        return _line("MODIFIED" if before else "ADDED", change.object)
    return _line("DELETED", change.object) if before else b""


def _bookmark(kind: ResourceKind, version: int) -> bytes:
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    return _line("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta})


def _line(how: str, obj: Json) -> bytes:
    return json.dumps({"type": how, "object": obj}, separators=(",", ":")).encode() + b"\n"
