"""Reports of task attempts: those of supervisors, and those that the controller makes if a supervisor left none."""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from kedge.contract import (
    COMMAND_FAILED,
    COMMAND_KILLED,
    DISK_FULL,
    REPORT_FILE,
    RUNTIME_BROKE,
    RUNTIME_ERROR,
    SHELL_KILLED,
    SHELL_TERMINATED,
    SUCCEEDED,
    Report,
    container_code,
    timestamp,
)
from kedge.diagnose.model import Diagnosis
from kedge.engines.base import Task, TaskAttempt
from kedge.policy.codes import Behaviour
from kedge.runs import task_reports
from kedge.runs.folder import Run
from kedge.untrusted import read_json
from kedge.untrusted_values import fits

_LARGEST = 16 << 20  # bytes; a larger report is not from a supervisor
_LONGEST_MESSAGE = 10_000  # characters; it becomes part of events


class Launch(NamedTuple):
    """One task attempt that was started, or should have been. `started` is in nanoseconds since 1970."""

    task: Task
    folder: str
    job_attempt: int
    task_attempt: int
    started: int

    @property
    def attempt(self) -> TaskAttempt:
        """Which one it is."""
        return TaskAttempt(self.task, self.job_attempt, self.task_attempt)


def read(launch: Launch) -> Report | None:
    """The supervisor's report; None if it left none, or the task has replaced it."""
    try:
        return of_json(read_json(launch.folder, REPORT_FILE, _LARGEST))
    except (OSError, ValueError):
        return None


def of_json(data: Any) -> Report | None:
    """The report of a supervisor from its JSON form, as it was read or received; None if it is none."""
    try:
        report = task_reports.report(data)
        if report.diagnosis and not _can_be_used(Diagnosis.from_json(report.diagnosis)):
            return None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return report._replace(message=report.message[:_LONGEST_MESSAGE])


def stored(run: Run, task: Task, attempt: int, task_attempt: int) -> Report | None:
    """The supervisor's report in the folder of a task attempt; None as in `read`."""
    folder = str(run.task(task.role, task.task_index, attempt, task_attempt))
    return read(Launch(task, folder, attempt, task_attempt, 0))


def _can_be_used(diagnosis: Diagnosis) -> bool:
    return fits(diagnosis, Diagnosis) and diagnosis.behaviour in list(Behaviour)


def is_damaged(launch: Launch) -> bool:
    """Whether there is a report file that `read` cannot use."""
    return os.path.lexists(os.path.join(launch.folder, REPORT_FILE))


def of_kill(launch: Launch, number: int, what: str, reason: str = RUNTIME_ERROR) -> Report:
    """The report of a supervisor that was ended by signal `number`."""
    return ended(launch, container_code(128 + number), reason, what)


def of_forced_stop(launch: Launch) -> Report:
    """The report of a supervisor that was asked to stop, did not end, and was killed by kedge."""
    what = "stopped by KILL: it did not end by itself"
    return ended(launch, SHELL_KILLED, COMMAND_KILLED, what)._replace(stopped_by="KILL", killed=True)


def stopped_before_start(launch: Launch) -> Report:
    """The report of an attempt that was stopped before its supervisor was started."""
    report = ended(launch, SHELL_TERMINATED, COMMAND_KILLED, "stopped by TERM before the command started")
    return report._replace(stopped_by="TERM")


def of_end(launch: Launch, code: int, what: str) -> Report:
    """The report of a supervisor that ended by itself with `code` and left none: the disk was full, the task has
    damaged its report (only the code is known then), or the runtime is broken."""
    if is_full(launch.folder):
        return ended(launch, RUNTIME_BROKE, DISK_FULL, f"{launch.folder}: the file system is full")
    if code != RUNTIME_BROKE and is_damaged(launch):
        damage = f"it ended with exit code {code}; nothing else is known, because its {REPORT_FILE} is damaged"
        return ended(launch, code, COMMAND_FAILED if code else SUCCEEDED, damage)
    return ended(launch, RUNTIME_BROKE, RUNTIME_ERROR, what)


def ended(launch: Launch, exit_code: int, reason: str, message: str) -> Report:
    """The report of an attempt that has just ended."""
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
    """Whether a file system has no free block or inode for this user. Without a fixed number of inodes, both are 0. The
    folder need not exist: a task that a cluster could not start has none."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    found = os.statvfs(folder)
    return found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0)
