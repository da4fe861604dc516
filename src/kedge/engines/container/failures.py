"""The report of a container that ended, or could not be started: the supervisor's own, or what else is known."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NamedTuple

from kedge.contract import (
    CANNOT_START,
    COMMAND_KILLED,
    DISK_FULL,
    PERHAPS_MEMORY,
    RUNTIME_BROKE,
    RUNTIME_ERROR,
    SHELL_KILLED,
    SHELL_TERMINATED,
    Report,
)
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import SURE, Evidence
from kedge.diagnose.rules.packaged import packaged
from kedge.engines.container import out_of_memory
from kedge.engines.container.engine_answers import ContainerState, EngineRefused
from kedge.engines.container.images import ImageProblem
from kedge.engines.container.memory_kills import MemoryKill
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch
from kedge.errors import DiskFull

# OpenPAI's codes for what happens to a container from outside.
REMOVED = -101
NOT_STARTED = -1201
IMAGE = 254
_DOCKER_FAILED = 125  # what `docker run` exits with when it could not start the container
_LONGEST_QUOTE = 1000
ENGINE_LOG = "engine.log"
_NOT_STARTED = "The container engine cannot start a container for this task."
_UNREACHABLE = "The container engine cannot reach the registry of the image."
_BRING_IT = (
    "Check the registry in the image's name, and the container engine's network and proxy; then run again.",
    "Where there is no way to a registry, bring the image beforehand: docker load, or podman load.",
)
# Docker's and Podman's word for what an image can still lack: what is executed is the bundle's own.
_NO_USER = "no matching entries in"


class KnownFacts(NamedTuple):
    """What is known of a container besides the engine's answer. `memory`: its limit, in bytes; `kill`: the kernel's for
    want of memory, just before the end; `watched`: whether one would have been seen; `up`: whether its supervisor has
    ever spoken; `killed`: whether kedge has killed it."""

    memory: int | None = None
    kill: MemoryKill | None = None
    watched: bool = False
    up: bool = True
    killed: bool = False


def of_container(launch: Launch, state: ContainerState | None, known: KnownFacts) -> Report:
    """How an attempt ended that left no report, from how its container did; None: that is not there any more."""
    if known.killed and (state is None or state.exit_code == SHELL_KILLED):
        return reports.of_forced_stop(launch)
    if state is None:
        return reports.ended(launch, REMOVED, RUNTIME_ERROR, "the task's container was removed by somebody else")
    if what := out_of_memory.explained(state, known.kill, known.memory, known.up):
        return out_of_memory.report(launch, what)
    if state.exit_code == SHELL_KILLED and not known.watched and not reports.is_damaged(launch):
        return reports.of_kill(launch, signal.SIGKILL, out_of_memory.suspected(known.memory), PERHAPS_MEMORY)
    if state.exit_code > 128 and not reports.is_damaged(launch):
        return reports.of_kill(launch, state.exit_code - 128, _killed(state.exit_code - 128))
    said = "; ".join(filter(None, (state.error, state.said[-_LONGEST_QUOTE:])))
    what = f"the task's container ended with {state.exit_code} and no report: {said or 'it said nothing'}"
    return reports.of_end(launch, state.exit_code, what)


def of_problem(launch: Launch, error: Exception) -> Report:
    """How an attempt ended that could not be started. What is wrong with an image is the job's error."""
    if isinstance(error, EngineRefused) and _NO_USER in str(error):
        error = ImageProblem(f"no container of the image can be started: {error}")
    if isinstance(error, ImageProblem):
        return _of_image(launch, error)
    if isinstance(error, DiskFull):
        return reports.ended(launch, RUNTIME_BROKE, DISK_FULL, str(error))
    hint = _hint(str(error))
    what = "; ".join(filter(None, (f"the task's container could not be started: {error}", hint)))
    found = classify(Evidence(_log(launch, what), _DOCKER_FAILED))._replace(exit_meaning="")
    if hint:
        found = found._replace(meaning=_NOT_STARTED, remedy=(f"{hint[0].upper()}{hint[1:]}.",))
    return reports.ended(launch, NOT_STARTED, CANNOT_START, what)._replace(diagnosis=found.to_json())


def _of_image(launch: Launch, problem: ImageProblem) -> Report:
    what = str(problem)
    found = classify(Evidence(_log(launch, what), IMAGE))
    if problem.cause:  # what kedge has found out itself
        known = packaged().cause(problem.cause)
        found = found._replace(
            cause=problem.cause, behaviour=known.behaviour, confidence=SURE, owner=known.owner,
            meaning=problem.meaning or known.meaning, remedy=(problem.remedy,) if problem.remedy else known.remedy,
        )  # fmt: skip
    if found.owner == "network":  # the advice of these causes is for what a command fetches
        found = found._replace(meaning=_UNREACHABLE, remedy=_BRING_IT)
    return reports.ended(launch, IMAGE, CANNOT_START, what)._replace(diagnosis=found.to_json())


def stopped_before_start(launch: Launch) -> Report:
    """How an attempt ended that was told to stop while its container, or its image, was still being made ready."""
    report = reports.ended(launch, SHELL_TERMINATED, COMMAND_KILLED, "stopped by TERM before the command started")
    return report._replace(stopped_by="TERM")


def of_lost_engine(launch: Launch) -> Report:
    """How an attempt ended whose container nobody can ask about any more."""
    what = "the container engine does not answer any more; the container may still run, and kedge rm ends it"
    return reports.read(launch) or reports.ended(launch, RUNTIME_BROKE, RUNTIME_ERROR, what)


def _log(launch: Launch, text: str) -> tuple[tuple[str, bytes], ...]:
    """What the container engine said, as a log of the task; also as a file, since a diagnosis names it."""
    with suppress(OSError):
        os.makedirs(launch.folder, exist_ok=True)
        # The task may have put a link or a pipe there.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(os.path.join(launch.folder, ENGINE_LOG), flags, 0o644), "a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    return ((ENGINE_LOG, text.encode()),)


def _hint(said: str) -> str:
    """What to know, or to do, about a start that failed; empty if nothing is known."""
    if "memory limit" in said.lower():  # Podman's runtimes: unable to set …; Docker: Minimum … allowed is 6MB
        return "the task's memoryMB is less than a container needs to start: raise it"
    if any(word in said for word in ("UIDs", "available IDs", "setup user", "namespace mode")):
        return "--user and --userns take only IDs that the engine has: see /etc/subuid and /etc/subgid"
    if any(word in said for word in ("netns", "slirp4netns", "pasta", "netavark", "network")):  # most often rootless
        return "--network host runs it without a network of its own"
    return ""


def _killed(number: int) -> str:
    return f"the task's container was killed from outside (signal {number})"
