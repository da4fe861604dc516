"""Pods for tests: those that a cluster of Kubernetes 1.20 really had (kubernetes-1.20.json, without what kedge does not
read), and others in the shapes that the API documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REAL: dict[str, Any] = json.loads(Path(__file__).with_name("kubernetes-1.20.json").read_text())
BEGAN, ENDED, LATER = "2026-11-23T10:00:00Z", "2026-11-23T11:00:00Z", "2026-11-23T11:00:05Z"


def pod(**status: Any) -> dict[str, Any]:
    """A pod on a node with this status."""
    meta = {"name": "p", "uid": "u", "creationTimestamp": BEGAN}
    return {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running", **status}}


def ended(code: int, reason: str = "", phase: str = "", message: str = "", **status: Any) -> dict[str, Any]:
    """A pod whose command ended with a code."""
    reason = reason or ("Error" if code else "Completed")
    state = {"exitCode": code, "reason": reason, "startedAt": BEGAN, "finishedAt": ENDED, "message": message}
    each = {"name": "app", "image": "i", "state": {"terminated": state}}
    return pod(**{"phase": phase or ("Failed" if code else "Succeeded"), "containerStatuses": [each], **status})


def deleted(found: dict[str, Any], ends: str = LATER, grace: int = 30) -> dict[str, Any]:
    """The same pod when somebody has deleted it; `ends` is when its grace ends."""
    meta = {**found["metadata"], "deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}
    return {**found, "metadata": meta}


def disrupted(
    found: dict[str, Any], reason: str, at: str = ENDED, kind: str = "DisruptionTarget", message: str = ""
) -> dict[str, Any]:
    """The same pod with a condition that 1.20 does not know."""
    new = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}
    return {**found, "status": {**found["status"], "conditions": [new]}}


def waits(reason: str, message: str = "", name: str = "app", image: str = "registry/i:1") -> dict[str, Any]:
    """A pod with a container that cannot start."""
    state = {"waiting": {"reason": reason, "message": message}}
    field = "initContainerStatuses" if name == "prepare" else "containerStatuses"
    return pod(phase="Pending", **{field: [{"name": name, "image": image, "state": state}]})


def event(reason: str, message: str, at: str = ENDED) -> dict[str, Any]:
    """An event of a pod."""
    return {"reason": reason, "message": message, "lastTimestamp": at}
