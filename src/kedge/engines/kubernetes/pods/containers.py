"""How a container ended, or why it could not start, from what its status says."""

from __future__ import annotations

import re
from typing import NamedTuple

from kedge.engines.cluster.base import EndKind, GoneKind
from kedge.engines.kubernetes.pods import fields, kinds
from kedge.engines.kubernetes.pods.fields import Fields

_OOM = "OOMKilled"
_LOST = "ContainerStatusUnknown"
_START = ("StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError")
_MOST_SIGNALS = 64
# In this order; messages of runc, crun and NVIDIA's hook.
_START_ERRORS = (
    (kinds.OUT_OF_MEMORY_AT_START, re.compile(r"memory limit too low|OOM-killed|unable to set memory limit", re.I)),
    (kinds.NO_GPU, re.compile(r"device error: .*unknown device", re.I)),
    (kinds.GPU_RUNTIME, re.compile(r"nvidia-container-cli|unresolvable CDI devices", re.I)),
    (kinds.NO_USER, re.compile(r"no matching entries in|unable to find (?:user|group)", re.I)),
    (kinds.WRONG_PROCESSOR, re.compile(r"exec format error", re.I)),
    (kinds.NODE_DISK, re.compile(r"no space left on device", re.I)),
    (kinds.PROGRAM_MISSING, re.compile(r"no such file or directory|not found|cannot find", re.I)),
    (kinds.NO_PERMISSION, re.compile(r"permission denied|operation not permitted", re.I)),
)


class PodEnd(NamedTuple):
    """How a pod or its container ended, as in Gone. `code` is -n for signal n."""

    reason: GoneKind
    text: str = ""
    code: int | None = None
    kind: EndKind | None = None


def ended(state: Fields) -> PodEnd:
    """The end of the task's container. `state` is what stands under `terminated`."""
    reason, said = str(state.get("reason") or ""), fields.one_line(state.get("message"))
    if reason == _OOM:
        return PodEnd(GoneKind.OUT_OF_MEMORY, "", signal_or_code(state))
    if reason == _LOST:
        return PodEnd(GoneKind.NODE_LOST, said or "the node does not know how the task's container ended")
    if reason in _START:
        return PodEnd(GoneKind.NOT_STARTED, said, kind=start_error(said, kinds.NOT_STARTED))
    return PodEnd(GoneKind.ENDED, "", signal_or_code(state))


def prepare_failed(state: Fields) -> PodEnd:
    """The end of the container that prepares the pod."""
    reason, said = str(state.get("reason") or ""), fields.one_line(state.get("message"))
    code = state.get("exitCode")
    text = f"it ended with exit code {code}" + (f": {said}" if said else "")
    if reason == _OOM:
        return PodEnd(GoneKind.NOT_STARTED, said, kind=kinds.PREPARE_MEMORY)
    if reason in _START:
        return PodEnd(GoneKind.NOT_STARTED, said, kind=start_error(said, kinds.PREPARE))
    full = "no space left" in said.lower()
    return PodEnd(GoneKind.NOT_STARTED, text, kind=kinds.PREPARE_DISK if full else kinds.PREPARE)


def start_error(message: str, other: EndKind) -> EndKind:
    """What the container runtime's message means; `other` if it is none that is known."""
    return next((kind for kind, pattern in _START_ERRORS if pattern.search(message)), other)


def signal_or_code(state: Fields) -> int | None:
    """The exit code; -n for signal n. A shell's 128+n of PID 1 is a signal as well: the supervisor has no such codes
    without leaving a report."""
    if number := state.get("signal"):
        return -int(number)
    code = state.get("exitCode")
    if code is None:
        return None
    return 128 - int(code) if 128 < int(code) <= 128 + _MOST_SIGNALS else int(code)
