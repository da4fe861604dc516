"""What the server refuses to store: names, labels and sizes that Kubernetes does not allow."""

from __future__ import annotations

import re

from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json, invalid
from kedge.testing.kubernetes_api.resources import POD, ResourceKind

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MOST_DATA = 1 << 20  # bytes of a ConfigMap or Secret
_MOST_ANNOTATIONS = 256 << 10


def check(kind: ResourceKind, obj: Json) -> None:
    """FakeRefusal 400 or 422."""
    if obj.get("apiVersion", kind.api_version) != kind.api_version or obj.get("kind", kind.kind) != kind.kind:
        said = f"{obj.get('apiVersion')}, {obj.get('kind')}"
        raise FakeRefusal(400, f"the object provided is unrecognized: {said} is not {kind.api_version}, {kind.kind}")
    name = obj["metadata"].get("name", "")
    problem = _name(kind, name) or _labels(obj) or _sizes(kind, obj) or (_pod(obj) if kind == POD else "")
    if problem:
        raise invalid(kind.kind if not kind.group else f"{kind.kind}.{kind.group}", name, problem)


def check_unchanged(kind: ResourceKind, new: Json, old: Json) -> None:
    """What a later write may not change. FakeRefusal 422."""
    name = old["metadata"]["name"]
    if kind == POD and _fixed(new) != _fixed(old):
        raise invalid("Pod", name, "spec: Forbidden: pod updates may not change fields other than images and so on")
    if old.get("immutable") and (new.get("data"), new.get("binaryData")) != (old.get("data"), old.get("binaryData")):
        raise invalid(kind.kind, name, "data: Forbidden: field is immutable when `immutable` is set")


def _fixed(pod: Json) -> Json:
    """What stays as it was created, of the part that tests use."""
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName", "terminationGracePeriodSeconds")
    return {name: value for name, value in pod.get("spec", {}).items() if name not in free}


def _name(kind: ResourceKind, name: str) -> str:
    if not name:
        return "metadata.name: Required value: name or generateName is required"
    form, longest = (_DNS_LABEL, 63) if kind.kind in ("Service", "Namespace") else (_NAME, 253)
    if len(name) > longest or not form.fullmatch(name):
        return f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 name of at most {longest} characters'
    return ""


def _labels(obj: Json) -> str:
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if not _LABEL_KEY.fullmatch(key):
            return f'metadata.labels: Invalid value: "{key}": name part must consist of alphanumeric characters'
        if not isinstance(value, str) or len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            return f'metadata.labels: Invalid value: "{value}": must be at most 63 alphanumeric characters'
    return ""


def _sizes(kind: ResourceKind, obj: Json) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    if any(not isinstance(value, str) for value in annotations.values()):
        return "metadata.annotations: Invalid value: not a string"
    if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        return f"metadata.annotations: Too long: must have at most {_MOST_ANNOTATIONS} bytes"
    if kind.kind in ("ConfigMap", "Secret"):
        data = {**(obj.get("data") or {}), **(obj.get("binaryData") or {})}
        if any(not isinstance(value, str) for value in data.values()):
            return "data: Invalid value: not a string"
        coded = set(obj.get("binaryData") or {}) if kind.kind == "ConfigMap" else set(data)  # base64
        if sum(len(v) * 3 // 4 if key in coded else len(v.encode()) for key, v in data.items()) > _MOST_DATA:
            return f"data: Too long: must have at most {_MOST_DATA} bytes"
    return ""


def _pod(pod: Json) -> str:
    spec = pod.get("spec") or {}
    if not spec.get("containers"):
        return "spec.containers: Required value"
    for field in ("hostname", "subdomain"):
        if field in spec and (len(spec[field]) > 63 or not _DNS_LABEL.fullmatch(spec[field])):
            return f'spec.{field}: Invalid value: "{spec[field]}": a lowercase RFC 1123 label'
    names = [c.get("name") for c in (*spec.get("initContainers", ()), *spec["containers"])]
    if len(set(names)) < len(names):
        return f"spec.containers: Duplicate value: {sorted(map(str, names))}"
    volumes = {volume["name"] for volume in spec.get("volumes", ())}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        for mount in container.get("volumeMounts", ()):
            if mount["name"] not in volumes:
                return f'spec.containers.volumeMounts.name: Not found: "{mount["name"]}"'
    return ""
