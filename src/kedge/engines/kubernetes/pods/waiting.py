"""Why a pod does not run yet, in words, and what its task ends with if it stays like this.

Nothing in Kubernetes ends such a pod: an image that does not exist is asked for again for ever."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from kedge.engines.cluster.base import EndKind, GoneKind
from kedge.engines.kubernetes.objects import scheduling
from kedge.engines.kubernetes.pods import containers, fields, image_problems, kinds, scheduler_messages
from kedge.engines.kubernetes.pods.containers import PodEnd
from kedge.engines.kubernetes.pods.fields import AGENT, APP, PREPARE, Fields

_PULL = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed")
_NEVER = {"InvalidImageName": kinds.BAD_NAME, "ErrImageNeverPull": kinds.NOT_ON_NODE}
_BEGINS = ("ContainerCreating", "PodInitializing", "")
_MOUNTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_MISSING = re.compile(r"(?:configmap|secret) \"[^\"]*\" not found|references non-existent")
_SERVER_GONE = ("timed out", "timeout", "refused", "unreachable", "not responding", "host is down", "no route")
_SANDBOX = "FailedCreatePodSandBox"
_RUNTIME_IMAGE = (
    "Make the runtime image with `kedge bundle --oci`, push it to the site's registry, and name it in the site's file.",
)
_ROOT = ("runAsNonRoot", "non-root")


class WaitLimit(StrEnum):
    """How long a pod may wait: not at all, the site's `image-wait` or `pending`, or as long as it takes. `queued`: its
    time has not begun."""

    AT_ONCE = "at-once"
    IMAGE_WAIT = "image-wait"
    PENDING = "pending"
    UNLIMITED = "unlimited"
    QUEUED = "queued"


class PodWait(NamedTuple):
    """`words` for people. `end` is what the task attempt ends with after the `deadline`. `answer` is what a registry
    said, which the node does not repeat each time: see `of_pod`."""

    words: str
    deadline: WaitLimit = WaitLimit.UNLIMITED
    end: PodEnd | None = None
    answer: str = ""


def of_pod(
    pod: Fields, events: Sequence[Fields] = (), before: PodWait | None = None, *, queue_said: str = ""
) -> PodWait | None:
    """Why its containers do not run yet; None if they do, or it is over or being deleted. `before` is what was returned
    for the same pod the last time, `queue_said` why its queue holds it."""
    if fields.asked_to_go(pod) is not None or fields.phase(pod) in ("Succeeded", "Failed"):
        return None
    if not fields.node(pod):
        return _gated(pod, queue_said) or _unscheduled(pod)
    for name in _names(pod):
        if wait := _of_container(pod, name, events, before):
            return wait
    if fields.terminated(pod, APP) or fields.phase(pod) == "Running":
        return None
    return _beginning(pod, events)


def _names(pod: Fields) -> Sequence[str]:
    """The containers in the order in which they start; those of kedge's task pods, or of any other."""
    status = fields.status(pod)
    known = [each["name"] for key in ("initContainerStatuses", "containerStatuses") for each in status.get(key) or ()]
    return sorted(known, key=lambda name: (PREPARE, APP, AGENT).index(name) if name in (PREPARE, APP, AGENT) else 3)


def _gated(pod: Fields, queue_said: str) -> PodWait | None:
    """It is kept from the scheduler, by a queue or by something else; None if it is not."""
    gates = scheduling.gates(pod)
    if not gates and fields.condition(pod, "PodScheduled").get("reason") != "SchedulingGated":
        return None
    queue = ((pod.get("metadata") or {}).get("labels") or {}).get(scheduling.QUEUE)
    if queue:
        words = f"waiting in queue {queue}" + (f": {queue_said}" if queue_said else "")
    else:
        words = f"the cluster holds it back ({', '.join(gates) or 'a scheduling gate'})"
    return PodWait(words, WaitLimit.QUEUED)


def _unscheduled(pod: Fields) -> PodWait:
    placed = fields.condition(pod, "PodScheduled")
    reason, said = str(placed.get("reason") or ""), fields.one_line(placed.get("message"))
    if node := fields.status(pod).get("nominatedNodeName"):
        return PodWait(f"it waits for pods of lower priority to leave node {node}")
    if reason == "Unschedulable":
        words = scheduler_messages.sentence(said)
    elif said:
        words = said
    else:
        name = (pod.get("spec") or {}).get("schedulerName") or "default-scheduler"
        words = f"no scheduler has looked at it yet ({name})"
    return PodWait(words, WaitLimit.PENDING, PodEnd(GoneKind.NOT_STARTED, words, kind=kinds.NO_ROOM))


def _of_container(pod: Fields, name: str, events: Sequence[Fields], before: PodWait | None) -> PodWait | None:
    """A container with a problem; None if it has none."""
    state = fields.waits(pod, name)
    reason, said = str(state.get("reason") or ""), fields.one_line(state.get("message"))
    if not state or reason in _BEGINS:
        return None
    if reason in _NEVER:
        return _image(pod, name, said, _NEVER[reason], WaitLimit.AT_ONCE)
    if reason in _PULL:
        answer = image_problems.plain(said) or _of_events(events) or (before.answer if before else "")
        kind = image_problems.kind_of(answer) if answer else kinds.NO_IMAGE
        return _image(pod, name, answer or reason, kind, WaitLimit.IMAGE_WAIT)
    if reason == "CreateContainerConfigError":
        root = any(word in said for word in _ROOT)
        kind = kinds.ROOT_IMAGE if root else kinds.NOT_CONFIGURED
        return _wait(kind, said or reason, WaitLimit.AT_ONCE if root else WaitLimit.IMAGE_WAIT)
    if reason == "CrashLoopBackOff":
        return PodWait(f"its container {name} ends again and again: {said}")
    kind = containers.start_error(said, kinds.NOT_CREATED)
    return _wait(kind, f"{reason}: {said}" if said else reason, WaitLimit.IMAGE_WAIT)


def _image(pod: Fields, name: str, answer: str, kind: EndKind, deadline: WaitLimit) -> PodWait:
    image = str(fields.container(pod, name).get("image") or "")
    text = answer if image and image in answer else f"{image}: {answer}" if image else answer
    if name in (PREPARE, AGENT):
        kind = kind._replace(remedy=_RUNTIME_IMAGE)
        text = f"kedge's runtime image {text}"
    return _wait(kind, text, deadline)._replace(answer=answer)


def _of_events(events: Sequence[Fields]) -> str:
    said = fields.one_line(fields.last_event([e for e in events if "pull image" in str(e.get("message"))], "Failed")
                           .get("message"))  # fmt: skip
    return image_problems.plain(said)


def _mount(said: str) -> EndKind:
    text = said.lower()
    if _MISSING.search(text):
        return kinds.NOT_CONFIGURED
    return kinds.NOT_MOUNTED if any(word in text for word in _SERVER_GONE) else kinds.WRONG_VOLUME


def _wait(kind: EndKind, text: str, deadline: WaitLimit) -> PodWait:
    return PodWait(f"{kind.sentence}: {text}", deadline, PodEnd(GoneKind.NOT_STARTED, text, kind=kind))


def _beginning(pod: Fields, events: Sequence[Fields]) -> PodWait:
    """It has a node, and no container complains."""
    node = fields.node(pod)
    if fields.runs(pod, PREPARE):
        return PodWait(f"its pod is being prepared on node {node}")
    last = fields.last_event(events, *_MOUNTS, _SANDBOX, "Pulling", "Pulled", "Created", "Started")
    reason, said = last.get("reason"), fields.one_line(last.get("message"))
    if reason in _MOUNTS:
        return _wait(_mount(said), said, WaitLimit.PENDING)
    if reason == _SANDBOX:
        return _wait(kinds.NO_SANDBOX, said, WaitLimit.PENDING)
    if reason == "Pulling":
        return PodWait(f"node {node}: {said[:1].lower()}{said[1:]}")
    return PodWait(f"node {node} sets it up")
