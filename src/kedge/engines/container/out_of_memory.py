"""Whether memory ended a container: told apart by its exit code, the engine's answer and the kernel's kills."""

from __future__ import annotations

from kedge.contract import COMMAND_KILLED, SHELL_KILLED, Report
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import SURE, Evidence
from kedge.engines.container.engine_answers import ContainerState
from kedge.engines.container.memory_kills import MemoryKill
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch

OUT_OF_MEMORY = -1200  # OpenPAI's code
_MIB = 1 << 20
RUNTIME_NEEDS = 8 * _MIB  # measured: what a container whose command is a shell needs at most


def explained(state: ContainerState, kill: MemoryKill | None, memory: int | None, up: bool) -> str:
    """In which way memory ended a container; empty when it did not. `kill` is the kernel's, just before the end;
    `memory` the container's limit, in bytes; `up` whether its supervisor has ever reported."""
    limit = f"its memoryMB{f' of {memory // _MIB}' if memory else ''}"
    if state.exit_code == SHELL_KILLED and not up and memory and memory < RUNTIME_NEEDS:
        return (
            f"{limit} is less than the runtime needs, about {RUNTIME_NEEDS // _MIB}: the kernel killed it at its start"
        )
    if kill and not kill.own_limit:
        return "this machine's memory was used up: the kernel killed in the task's container"
    if kill or state.out_of_memory:
        peak = kill.peak if kill else None
        most = f", which had {peak // _MIB} MiB" if peak else ""
        return f"the task needed more memory than {limit}: the kernel killed all of its container{most}"
    return ""


def report(launch: Launch, what: str) -> Report:
    """The report of a container that memory ended, as `explained`."""
    found = classify(Evidence((), SHELL_KILLED, {"oom_kills": 1}))._replace(confidence=SURE)
    return reports.ended(launch, OUT_OF_MEMORY, COMMAND_KILLED, what)._replace(diagnosis=found.to_json())


def suspected(limit: int | None) -> str:
    """The message for a container that SIGKILL ended where no kill of the kernel could be seen."""
    what = (
        f"it needed more memory than its memoryMB of {limit // _MIB}" if limit else "this machine's memory was used up"
    )
    return f"the task's container was killed (signal 9), perhaps because {what}: kedge cannot watch it here"
