"""How objects go: a pod's time to end, finalizers, and what belongs to an owner that has gone."""

from __future__ import annotations

from typing import NamedTuple

from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json
from kedge.testing.kubernetes_api.resources import JOB, NAMESPACE, POD, ResourceKind
from kedge.testing.kubernetes_api.store import ObjectStore, StoreChange, owners, timestamp

_FOREGROUND = "foregroundDeletion"
_GRACE_SEC = 30


class DeleteOptions(NamedTuple):
    """What a request to delete asks for."""

    grace_sec: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""

    @staticmethod
    def read(body: Json, query: dict[str, str]) -> DeleteOptions:
        """From the body of a request, or its query."""
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        wanted = body.get("preconditions") or {}
        return DeleteOptions(
            None if grace is None else int(grace),
            body.get("propagationPolicy") or query.get("propagationPolicy", ""),
            wanted.get("uid") or "", wanted.get("resourceVersion") or "",
        )  # fmt: skip


def delete(store: ObjectStore, kind: ResourceKind, namespace: str, name: str, options: DeleteOptions) -> Json:
    """Delete an object, or make it terminating. Returns what is left of it, or its last state. FakeRefusal 404, 409."""
    with store.lock:
        obj = store.get(kind, namespace, name)
        _check_preconditions(kind, obj["metadata"], options)
        if options.propagation == "Orphan":
            _orphan(store, obj["metadata"]["uid"])
        if options.propagation == "Foreground" and store.owned_by(obj["metadata"]["uid"]):
            obj = _with_finalizer(store, kind, obj)
            _delete_dependents(store, obj["metadata"]["uid"], options)
            return store.find(kind, namespace, name) or obj
        grace = _grace(kind, obj, options)
        if grace or obj["metadata"].get("finalizers"):
            return _terminating(store, kind, obj, grace)
        store.remove(kind, namespace, name)
        return obj


def settle(store: ObjectStore, kind: ResourceKind, obj: Json) -> None:
    """Remove an object that is to be deleted and that nothing holds any more."""
    meta = obj["metadata"]
    if "deletionTimestamp" in meta and not meta.get("finalizers") and not _waits_for_kubelet(kind, obj):
        store.remove(kind, meta.get("namespace", ""), meta["name"])


def collect_garbage(store: ObjectStore, change: StoreChange) -> None:
    """After each change: what no owner is left of goes as well, and so does a namespace's content."""
    meta = change.object["metadata"]
    if change.type == "ADDED" and meta.get("ownerReferences") and not _has_owner(store, change.object):
        delete(store, change.kind, meta.get("namespace", ""), meta["name"], DeleteOptions())
    if change.type != "DELETED":
        return
    _delete_dependents(store, meta["uid"], DeleteOptions())
    for uid in owners(change.object):
        _release_owner(store, uid)
    if change.kind == NAMESPACE:
        for key in store.within(meta["name"]):
            store.remove(*key)


def _release_owner(store: ObjectStore, uid: str) -> None:
    """An owner that waits for what it owns goes with the last of it."""
    if store.owned_by(uid):
        return
    for kind, obj in store.with_finalizer(_FOREGROUND):
        if obj["metadata"]["uid"] == uid:
            left = [name for name in obj["metadata"]["finalizers"] if name != _FOREGROUND]
            settle(store, kind, store.put(kind, {**obj, "metadata": {**obj["metadata"], "finalizers": left}}))


def _check_preconditions(kind: ResourceKind, meta: Json, options: DeleteOptions) -> None:
    for field, wanted, found in (
        ("UID", options.uid, meta["uid"]),
        ("ResourceVersion", options.version, meta["resourceVersion"]),
    ):
        if wanted and wanted != found:
            what = f"the {field} in the precondition ({wanted}) does not match the {field} in record ({found})"
            raise FakeRefusal(
                409, f'Operation cannot be fulfilled on {kind.resource} "{meta["name"]}": Precondition failed: {what}'
            )


def _grace(kind: ResourceKind, obj: Json, options: DeleteOptions) -> int:
    """Seconds; only pods that run somewhere need any."""
    if kind != POD or not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_sec is not None:
        return options.grace_sec
    return int(obj["spec"].get("terminationGracePeriodSeconds", _GRACE_SEC))


def _waits_for_kubelet(kind: ResourceKind, obj: Json) -> bool:
    return kind == POD and bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _terminating(store: ObjectStore, kind: ResourceKind, obj: Json, grace: int) -> Json:
    meta = obj["metadata"]
    if "deletionTimestamp" in meta and grace >= meta.get("deletionGracePeriodSeconds", 0):
        return obj  # a later request can only shorten it
    new = {**meta, "deletionTimestamp": timestamp(grace), "deletionGracePeriodSeconds": grace}
    return store.put(kind, {**obj, "metadata": new})


def _with_finalizer(store: ObjectStore, kind: ResourceKind, obj: Json) -> Json:
    meta = obj["metadata"]
    finalizers = [*meta.get("finalizers", ()), _FOREGROUND]
    new = {**meta, "deletionTimestamp": timestamp(), "deletionGracePeriodSeconds": 0, "finalizers": finalizers}
    return store.put(kind, {**obj, "metadata": new})


def _has_owner(store: ObjectStore, obj: Json) -> bool:
    return any(store.exists(uid) for uid in owners(obj))


def _delete_dependents(store: ObjectStore, uid: str, options: DeleteOptions) -> None:
    passed_on = DeleteOptions(propagation=options.propagation)
    for (kind, namespace, name), obj in store.owned_by(uid):
        if not store.find(kind, namespace, name):
            continue  # it went with another
        if any(store.exists(other) for other in owners(obj) - {uid}):
            _disown(store, kind, obj, uid)
        elif "deletionTimestamp" not in obj["metadata"]:
            delete(store, kind, namespace, name, passed_on)


def _orphan(store: ObjectStore, uid: str) -> None:
    for (kind, _, _), obj in store.owned_by(uid):
        _disown(store, kind, obj, uid)


def _disown(store: ObjectStore, kind: ResourceKind, obj: Json, uid: str) -> None:
    rest = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
    store.put(kind, {**obj, "metadata": {**obj["metadata"], "ownerReferences": rest}})


def default_propagation(kind: ResourceKind, options: DeleteOptions) -> DeleteOptions:
    """Jobs of batch/v1 leave their pods behind unless the request says otherwise."""
    return options._replace(propagation=options.propagation or ("Orphan" if kind == JOB else "Background"))
