"""Whether a lack of memory ended a container, from its exit code, the engine's answer and the kernel's kills."""

from __future__ import annotations

from typing import TypeGuard

from kedge.contract import COMMAND_KILLED, SHELL_KILLED, Report
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import SURE, Evidence
from kedge.engines.container.api.engine_answers import ContainerState
from kedge.engines.container.ends.memory_kills import MemoryKill
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch

OUT_OF_MEMORY = -1200  # OpenPAI's code
_MIB = 1 << 20
RUNTIME_NEEDS = 8 * _MIB  # measured: the most that a container needs whose command is a shell


def explained(state: ContainerState, kill: MemoryKill | None, memory: int | None, up: bool) -> str:
    """How a lack of memory ended a container; empty if it did not. `kill` is the kernel's, just before the end;
    `memory` is the container's limit in bytes; `up`: whether its supervisor ever sent an event."""
    if state.exit_code == SHELL_KILLED and not up and is_too_little(memory):
        return f"{_too_little(memory)}: the kernel killed it at its start"
    limit = f"its memoryMB{f' of {memory // _MIB}' if memory else ''}"
    if kill and not kill.own_limit:
        return "this machine ran out of memory: the kernel killed processes in the task's container"
    if kill or state.out_of_memory:
        peak = kill.peak if kill else None
        most = f", which used {peak // _MIB} MiB" if peak else ""
        return f"the task needed more memory than {limit}: the kernel killed its whole container{most}"
    return ""


def unstarted(memory: int, error: Exception) -> str:
    """Why a container with too little memory did not start. How the engine puts it depends on which of its own
    processes the kernel killed."""
    return f"{_too_little(memory)}: the task's container could not be started: {error}"


def is_too_little(memory: int | None) -> TypeGuard[int]:
    """Whether the runtime cannot start within this limit, in bytes."""
    return memory is not None and 0 < memory < RUNTIME_NEEDS


def _too_little(memory: int) -> str:
    return f"its memoryMB of {memory // _MIB} is less than the {RUNTIME_NEEDS // _MIB} that the runtime needs"


def report(launch: Launch, what: str) -> Report:
    """The report of a container that a lack of memory ended; `what` is from `explained` or `unstarted`."""
    found = classify(Evidence((), SHELL_KILLED, {"oom_kills": 1}))._replace(confidence=SURE)
    return reports.ended(launch, OUT_OF_MEMORY, COMMAND_KILLED, what)._replace(diagnosis=found.to_json())


def suspected(limit: int | None) -> str:
    """The message for a container that SIGKILL ended where kills by the kernel cannot be seen. `limit` is in bytes."""
    what = f"it needed more memory than its memoryMB of {limit // _MIB}" if limit else "this machine ran out of memory"
    return f"the task's container was killed (signal 9), perhaps because {what}; kedge cannot observe this here"
