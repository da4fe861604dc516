"""The site's patch for task pods, for what has no setting of its own. What kedge needs must stay as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kedge.engines.kubernetes.objects.strategic_merge import BadPatch, merged
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun

SETTING = "engines.kubernetes.pod-patch"
_KINDS = {"apiVersion": "v1", "kind": "Pod"}
_METADATA = ("labels", "annotations", "finalizers")
_OF_SPEC = ("restartPolicy", "hostname", "subdomain", "terminationGracePeriodSeconds")
_OF_CONTAINERS = ("image", "command", "args", "workingDir", "restartPolicy", "terminationMessagePath")
_CONTAINERS = ("initContainers", "containers")
_OWN_ANNOTATIONS = "kedge.io/"
_APP = "app"


def patched(pod: Mapping[str, Any], options: KubernetesOptions) -> dict[str, Any]:
    """A task's pod with the site's patch. CannotRun: the patch is wrong, or it changes what kedge needs."""
    if not options.pod_patch:
        return dict(pod)
    patch = _read(options.pod_patch)
    try:
        result = merged(pod, patch)
    except BadPatch as error:
        raise _refused(str(error)) from None
    for place in _changed(pod, result):
        raise _refused(f"it changes {place}, which kedge needs as it is")
    return _in_front(result, pod)


@lru_cache(4)
def _read(text: str) -> Mapping[str, Any]:
    """The patch, which is only read."""
    patch: Any = json.loads(text)
    if not isinstance(patch, Mapping):
        raise _refused("it is not a mapping with the keys metadata and spec")
    for key, value in patch.items():
        if key not in ("metadata", "spec") and _KINDS.get(key) != value:
            raise _refused(f"{key} is nothing that can be patched; it may have the keys metadata and spec")
        if key in ("metadata", "spec") and not isinstance(value, Mapping):
            raise _refused(f"{key} is not a mapping")
    for key in patch.get("metadata", {}):
        if key not in _METADATA:
            raise _refused(f"it sets metadata.{key}; there it may only set {', '.join(_METADATA)}")
    return patch


def _refused(why: str) -> CannotRun:
    return CannotRun(f"the site's patch for pods ({SETTING}): {why}")


def _in_front(pod: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with kedge's containers before those that the patch adds: a pod's first one is what people look at."""
    own = [each["name"] for each in before["spec"]["containers"]]
    found = pod["spec"]["containers"]
    first = [each for name in own for each in found if each["name"] == name]
    return pod | {"spec": pod["spec"] | {"containers": first + [each for each in found if each["name"] not in own]}}


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The places that are not any more as kedge needs them."""
    yield from _texts(before["metadata"], after["metadata"])
    own, spec = before["spec"], after["spec"]
    yield from (f"spec.{key}" for key in _OF_SPEC if spec.get(key) != own.get(key))
    yield from _lost(own["volumes"], spec.get("volumes"), "name", "spec.volumes")
    for kind in _CONTAINERS:
        found = _by_key(spec.get(kind), "name")
        for each in own[kind]:
            yield from _container(each, found.get(each["name"]), f"spec.{kind}[{each['name']}]")


def _texts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The labels, and kedge's own annotations."""
    for key, value in before["labels"].items():
        if (after.get("labels") or {}).get(key) != value:
            yield f"the label {key}"
    for key, value in before["annotations"].items():
        if key.startswith(_OWN_ANNOTATIONS) and (after.get("annotations") or {}).get(key) != value:
            yield f"the annotation {key}"


def _container(own: Mapping[str, Any], found: Mapping[str, Any] | None, where: str) -> Iterator[str]:
    if found is None:
        yield where
        return
    yield from (f"{where}.{key}" for key in _OF_CONTAINERS if own.get(key) != found.get(key))
    yield from _lost(own["volumeMounts"], found.get("volumeMounts"), "mountPath", f"{where}.volumeMounts")
    if own["name"] != _APP:
        yield from _lost(own.get("env", ()), found.get("env"), "name", f"{where}.env")


def _lost(before: Any, after: Any, key: str, where: str) -> Iterator[str]:
    """The items of a list that are missing or different."""
    found = _by_key(after, key)
    yield from (f"{where}[{item[key]}]" for item in before if found.get(item[key]) != item)


def _by_key(items: Any, key: str) -> dict[Any, Any]:
    """Items of a patched list, which may be anything."""
    return {each.get(key): each for each in items if isinstance(each, Mapping)} if isinstance(items, list) else {}
