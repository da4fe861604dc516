"""Reports of task attempts: the supervisor's own, and what is said in its place where it could not write one."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from kedge.contract import (
    COMMAND_FAILED,
    COMMAND_KILLED,
    DISK_FULL,
    REPORT_FILE,
    RUNTIME_BROKE,
    RUNTIME_ERROR,
    SHELL_KILLED,
    SUCCEEDED,
    Report,
    container_code,
    timestamp,
)
from kedge.diagnose.model import Diagnosis
from kedge.engines.base import Task
from kedge.policy.codes import Behaviour
from kedge.runs import task_reports
from kedge.untrusted import fits, read_json

_LARGEST = 16 << 20  # bytes of a report; what is longer is not one of a supervisor
_LONGEST_MESSAGE = 10_000  # characters; it becomes part of events


class Launch(NamedTuple):
    """One attempt of a task that was, or was to be, started. `started` is in nanoseconds since 1970."""

    task: Task
    folder: str
    job_attempt: int
    task_attempt: int
    started: int


def read(launch: Launch) -> Report | None:
    """The supervisor's own report; None if it has left none, or the task something else in its place."""
    try:
        report = task_reports.report(read_json(launch.folder, REPORT_FILE, _LARGEST))
        if report.diagnosis and not _can_be_used(Diagnosis.from_json(report.diagnosis)):
            return None
    except (OSError, KeyError, ValueError, TypeError):
        return None
    return report._replace(message=report.message[:_LONGEST_MESSAGE])


def _can_be_used(diagnosis: Diagnosis) -> bool:
    return fits(diagnosis, Diagnosis) and diagnosis.behaviour in list(Behaviour)


def is_damaged(launch: Launch) -> bool:
    """Whether there is something in place of a report that `read` could not make one of."""
    return os.path.lexists(os.path.join(launch.folder, REPORT_FILE))


def of_kill(launch: Launch, number: int, what: str, reason: str = RUNTIME_ERROR) -> Report:
    """The report of a supervisor that signal `number` has ended."""
    return ended(launch, container_code(128 + number), reason, what)


def of_forced_stop(launch: Launch) -> Report:
    """The report of a supervisor that was told to stop, did not end, and was killed by kedge."""
    what = "stopped by KILL: it did not end by itself"
    return ended(launch, SHELL_KILLED, COMMAND_KILLED, what)._replace(stopped_by="KILL", killed=True)


def of_end(launch: Launch, code: int, what: str) -> Report:
    """The report of a supervisor that ended by itself with `code` and without one: the disk was full, the task has
    damaged its report, so that the code is all that is known, or else it is broken."""
    if is_full(launch.folder):
        return ended(launch, RUNTIME_BROKE, DISK_FULL, f"{launch.folder}: the file system is full")
    if code != RUNTIME_BROKE and is_damaged(launch):
        damage = f"it ended with {code}; the rest is not known, as its {REPORT_FILE} cannot be read any more"
        return ended(launch, code, COMMAND_FAILED if code else SUCCEEDED, damage)
    return ended(launch, RUNTIME_BROKE, RUNTIME_ERROR, what)


def ended(launch: Launch, exit_code: int, reason: str, message: str) -> Report:
    """The report of an attempt that ends now."""
    now = time.time_ns()
    return Report(
        task=str(launch.task),
        job_attempt=launch.job_attempt,
        task_attempt=launch.task_attempt,
        exit_code=exit_code,
        user_exit_code=None,
        reason=reason,
        message=message,
        started=timestamp(launch.started),
        ended=timestamp(now),
        duration_sec=max(0, now - launch.started) / 1e9,  # the clock may have been set back
    )


def is_full(folder: str) -> bool:
    """Whether a file system has no block left for us, or no inode (file systems without a fixed number say 0 of 0)."""
    found = os.statvfs(folder)
    return found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0)
