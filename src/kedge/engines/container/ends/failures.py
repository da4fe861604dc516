"""Reports of task attempts that left none: from how the container ended, or why it could not be started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NamedTuple

from kedge.contract import (
    CANNOT_START,
    DISK_FULL,
    PERHAPS_MEMORY,
    RUNTIME_BROKE,
    RUNTIME_ERROR,
    SHELL_KILLED,
    Report,
)
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import SURE, Evidence
from kedge.diagnose.rules.packaged import packaged
from kedge.engines.container.api.engine_answers import ContainerState, EngineRefused
from kedge.engines.container.ends import out_of_memory
from kedge.engines.container.ends.memory_kills import MemoryKill
from kedge.engines.container.images.images import ImageProblem
from kedge.engines.container.storages import StorageProblem
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch
from kedge.errors import DiskFull

# OpenPAI's codes for containers that fail from outside.
REMOVED = -101
NOT_STARTED = -1201
IMAGE = 254
_DOCKER_FAILED = 125  # the exit code of `docker run` if it cannot start the container
_LONGEST_QUOTE = 1000
ENGINE_LOG = "engine.log"
_NOT_STARTED = "The container engine cannot start a container for this task."
_UNREACHABLE = "The container engine cannot reach the registry of the image."
_BRING_IT = (
    "Check the registry in the image's name, and the container engine's network and proxy; then run again.",
    "If the registry cannot be reached, load the image beforehand with docker load or podman load.",
)
_NOT_MOUNTED = "The container engine cannot mount a storage for this task."
_SERVER_GONE = ("timed out", "refused", "unreachable", "not responding", "host is down", "no route")
_MOUNT_IT = (
    "Ask the administrator of this machine to check the storage: its server, its path there, and whether this machine "
    "can mount it.",
    "If it is mounted on this machine already, its `path` in the site's file makes tasks use that.",
)
# Docker's and Podman's error for a user that the image does not define. No other error of a start is the image's: the
# program is that of the bundle.
_NO_USER = "no matching entries in"


class KnownFacts(NamedTuple):
    """What is known of a container besides the engine's answer. `memory`: its limit in bytes; `kill`: the kernel's
    out-of-memory kill just before the end; `watched`: whether such a kill would have been seen; `up`: whether its
    supervisor ever sent an event; `killed`: whether kedge killed it."""

    memory: int | None = None
    kill: MemoryKill | None = None
    watched: bool = False
    up: bool = True
    killed: bool = False


def of_container(launch: Launch, state: ContainerState | None, known: KnownFacts) -> Report:
    """The report of an attempt that left none, from the end of its container. `state` is None if the container no
    longer exists."""
    if known.killed and (state is None or state.exit_code == SHELL_KILLED):
        return reports.of_forced_stop(launch)
    if state is None:
        return reports.ended(launch, REMOVED, RUNTIME_ERROR, "the task's container was removed from outside")
    if what := out_of_memory.explained(state, known.kill, known.memory, known.up):
        return out_of_memory.report(launch, what)
    if state.exit_code == SHELL_KILLED and not known.watched and not reports.is_damaged(launch):
        return reports.of_kill(launch, signal.SIGKILL, out_of_memory.suspected(known.memory), PERHAPS_MEMORY)
    if state.exit_code > 128 and not reports.is_damaged(launch):
        return reports.of_kill(launch, state.exit_code - 128, _killed(state.exit_code - 128))
    output = "; ".join(filter(None, (state.error, state.log[-_LONGEST_QUOTE:])))
    what = f"the task's container ended with exit code {state.exit_code} and no report: {output or 'no output'}"
    return reports.of_end(launch, state.exit_code, what)


def of_problem(launch: Launch, error: Exception, memory: int | None = None) -> Report:
    """The report of an attempt that could not be started. A problem of the image is an error of the job. `memory` is
    the limit of the container in bytes, if there already was one."""
    if isinstance(error, EngineRefused) and out_of_memory.is_too_little(memory):
        return out_of_memory.report(launch, out_of_memory.unstarted(memory, error))
    if isinstance(error, EngineRefused) and _NO_USER in str(error):
        error = ImageProblem(f"the image cannot be started as a container: {error}")
    if isinstance(error, ImageProblem):
        return _of_image(launch, error)
    if isinstance(error, DiskFull):
        return reports.ended(launch, RUNTIME_BROKE, DISK_FULL, str(error))
    if isinstance(error, StorageProblem):
        return _of_storage(launch, error)
    advice = _advice(str(error))
    what = "; ".join(filter(None, (f"the task's container could not be started: {error}", advice)))
    found = classify(Evidence(_log(launch, what), _DOCKER_FAILED))._replace(exit_meaning="")
    if advice:
        found = found._replace(meaning=_NOT_STARTED, remedy=(f"{advice[0].upper()}{advice[1:]}.",))
    return reports.ended(launch, NOT_STARTED, CANNOT_START, what)._replace(diagnosis=found.to_json())


def _of_image(launch: Launch, problem: ImageProblem) -> Report:
    what = str(problem)
    found = classify(Evidence(_log(launch, what), IMAGE))
    if problem.cause:  # kedge determined the cause itself
        known = packaged().cause(problem.cause)
        found = found._replace(
            cause=problem.cause, behaviour=known.behaviour, confidence=SURE, owner=known.owner,
            meaning=problem.meaning or known.meaning, remedy=(problem.remedy,) if problem.remedy else known.remedy,
        )  # fmt: skip
    if found.owner == "network":  # the remedies of these causes are for downloads of the user's command
        found = found._replace(meaning=_UNREACHABLE, remedy=_BRING_IT)
    return reports.ended(launch, IMAGE, CANNOT_START, what)._replace(diagnosis=found.to_json())


def _of_storage(launch: Launch, problem: StorageProblem) -> Report:
    """The report of a task with a storage that cannot be mounted. A server that does not answer may do so later."""
    what = str(problem)
    cause = "storage_hang" if any(word in what.lower() for word in _SERVER_GONE) else "container_failure"
    found = classify(Evidence(_log(launch, what), _DOCKER_FAILED))._replace(
        cause=cause, behaviour=packaged().cause(cause).behaviour, confidence=SURE, exit_meaning="",
        owner=packaged().cause("storage_hang").owner, meaning=_NOT_MOUNTED, remedy=_MOUNT_IT,
    )  # fmt: skip
    return reports.ended(launch, NOT_STARTED, CANNOT_START, what)._replace(diagnosis=found.to_json())


def of_lost_engine(launch: Launch) -> Report:
    """The report of an attempt whose container engine no longer answers."""
    what = "the container engine no longer answers; the container may still be running, and kedge rm ends it"
    return reports.read(launch) or reports.ended(launch, RUNTIME_BROKE, RUNTIME_ERROR, what)


def _log(launch: Launch, text: str) -> tuple[tuple[str, bytes], ...]:
    """The container engine's message as a log of the task, also written to a file, since the diagnosis quotes it."""
    with suppress(OSError):
        os.makedirs(launch.folder, exist_ok=True)
        # The flags reject a link or FIFO that the task may have put there.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(os.path.join(launch.folder, ENGINE_LOG), flags, 0o644), "a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    return ((ENGINE_LOG, text.encode()),)


def _advice(message: str) -> str:
    """What to do about a failed start; empty if kedge has no advice."""
    if "memory limit" in message.lower():  # Podman's runtimes: unable to set …; Docker: Minimum … allowed is 6MB
        return "the task's memoryMB is less than a container needs to start: raise it"
    if any(word in message for word in ("UIDs", "available IDs", "setup user", "namespace mode")):
        return "--user and --userns accept only IDs that the engine may use: see /etc/subuid and /etc/subgid"
    if any(word in message for word in ("netns", "slirp4netns", "pasta", "netavark", "network")):  # mostly rootless
        return "use --network host to run it without a network of the job's own"
    return ""


def _killed(number: int) -> str:
    return f"the task's container was killed from outside (signal {number})"
