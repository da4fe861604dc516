"""Creating, replacing and patching objects as the API server does."""

from __future__ import annotations

import base64
import secrets
from copy import deepcopy

from kedge.testing.kubernetes_api import deletion, validation
from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json, conflict, not_found
from kedge.testing.kubernetes_api.resources import JOB, NAMESPACE, POD, FakePlace, ResourceKind
from kedge.testing.kubernetes_api.store import ObjectStore

_SERVER_SETS = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


def create(store: ObjectStore, place: FakePlace, body: Json) -> Json:
    """FakeRefusal: the namespace is not there, the object is invalid, or its name is taken."""
    kind, obj = place.kind, deepcopy(body)
    meta = obj.setdefault("metadata", {})
    if kind.namespaced:
        if store.find(NAMESPACE, "", place.namespace) is None:
            raise not_found("namespaces", place.namespace)
        if meta.setdefault("namespace", place.namespace) != place.namespace:
            raise FakeRefusal(400, "the namespace of the object does not match that of the request")
    if meta.get("resourceVersion"):
        raise FakeRefusal(400, "resourceVersion should not be set on objects to be created")
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + secrets.token_hex(3)[:5]
    for field in _SERVER_SETS:
        meta.pop(field, None)
    _complete(kind, obj)
    validation.check(kind, obj)
    return store.add(kind, obj)


def replace(store: ObjectStore, place: FakePlace, body: Json) -> Json:
    """FakeRefusal 409: it is not the version that the writer read."""
    with store.lock:
        old = store.get(place.kind, place.namespace, place.name)
        return _update(store, place, old, deepcopy(body))


def patch(store: ObjectStore, place: FakePlace, body: Json) -> Json:
    """A merge patch. It may carry a resourceVersion, and then is refused if that is old."""
    with store.lock:
        old = store.get(place.kind, place.namespace, place.name)
        return _update(store, place, old, _merged(old, deepcopy(body)))


def _update(store: ObjectStore, place: FakePlace, old: Json, new: Json) -> Json:
    kind, meta = place.kind, old["metadata"]
    given = new.setdefault("metadata", {})
    if given.get("name", place.name) != place.name:
        raise FakeRefusal(400, "the name of the object does not match the name on the URL")
    if given.get("resourceVersion") not in (None, "", meta["resourceVersion"]):
        raise conflict(kind.resource, place.name)
    if given.get("uid") not in (None, "", meta["uid"]):
        raise conflict(kind.resource, place.name)
    if place.subresource == "status":
        return store.put(kind, {**old, "status": new.get("status", {})})
    new["metadata"] = {**given, **{name: meta[name] for name in (*_SERVER_SETS, "resourceVersion") if name in meta}}
    new["metadata"] |= {"name": place.name} | ({"namespace": place.namespace} if kind.namespaced else {})
    if kind.has_status and "status" in old:
        new["status"] = old["status"]
    _decode(kind, new)
    new = {"apiVersion": kind.api_version, "kind": kind.kind, **new}
    validation.check(kind, new)
    validation.check_unchanged(kind, new, old)
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = meta["generation"] + 1
    stored = store.put(kind, new)
    deletion.settle(store, kind, stored)
    return stored


def _merged(old: object, patch: object) -> Json:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch  # type: ignore[return-value]  # a value inside
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = _merged(new.get(name), value)
    return new


def _complete(kind: ResourceKind, obj: Json) -> None:
    """The defaults that tests may read."""
    _decode(kind, obj)
    if kind == POD:
        obj["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        obj.setdefault("spec", {}).setdefault("restartPolicy", "Always")
        obj["spec"].setdefault("terminationGracePeriodSeconds", 30)
        for container in (*obj["spec"].get("initContainers", ()), *obj["spec"].get("containers", ())):
            container.setdefault("terminationMessagePath", "/dev/termination-log")
    elif kind in (JOB, NAMESPACE):
        obj["status"] = {"phase": "Active"} if kind == NAMESPACE else {}


def _decode(kind: ResourceKind, obj: Json) -> None:
    """Text of a Secret is written as it is and read in base64."""
    texts = obj.pop("stringData", None) if kind.kind == "Secret" else None
    if texts:
        coded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **coded}
