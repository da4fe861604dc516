"""Records in the run folder what FrameworkController has done, and reads the logs that go with it.

FrameworkController decides everything, so there is no controller of kedge: whatever command looks at a run records
what is new since the last one looked. One process at a time does (copy_state)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kedge.contract import Report
from kedge.engines.kubernetes.framework import console_logs, event_fold, job_end, progress, task_ends
from kedge.engines.kubernetes.framework.event_fold import KnownEvents, NewEvent, TaskEnding
from kedge.engines.kubernetes.framework.pod_logs import FrameworkLogs, LogKey
from kedge.engines.kubernetes.framework.progress import FrameworkProgress
from kedge.engines.kubernetes.framework.submitted import SubmittedFramework, remove_addons
from kedge.errors import KedgeError
from kedge.runs import disk_reserve, events, report
from kedge.runs.events import EventLog

_PATIENCE_SEC = 5.0  # for another command that writes the log
_LOG_SEC = 20.0  # for the rest of a log after its task has ended


class FrameworkRecorder:
    """Records one run. `logs`: what tasks print is read, too; it is followed with `follow` until `close`."""

    def __init__(self, found: SubmittedFramework, *, logs: bool, follow: bool = False) -> None:
        self._found, self._run = found, found.run
        known = KnownEvents(events.read(self._run.events))
        self._logs = FrameworkLogs(found, known.roles) if logs else None
        if self._logs and follow and not known.over:
            self._logs.follow()

    def close(self) -> None:
        """End the reading of logs."""
        if self._logs:
            self._logs.close()

    def record(self, framework: dict[str, Any]) -> FrameworkProgress:
        """Record what is new. Returns the progress. CannotRun: the status cannot be read, or the log not be written."""
        now = progress.read(framework)
        known = KnownEvents(events.read(self._run.events))
        if known.over:
            return now
        self._begin_logs(known, now)
        with EventLog(self._run.events, _PATIENCE_SEC) as log:
            known = KnownEvents(events.read(self._run.events))  # nobody else writes it now
            self._append(log, known, event_fold.of_tasks(known, now, self._report_of))
            if now.is_over and not known.over:
                disk_reserve.free(self._run.path)
                self._append(log, known, job_end.events(known, now))
        if now.is_over:
            self._finish()
        return now

    def _append(self, log: EventLog, known: KnownEvents, new: Iterator[NewEvent]) -> None:
        for name, facts, sync in new:
            known.take(log.append(name, sync=sync, **facts))

    def _begin_logs(self, known: KnownEvents, now: FrameworkProgress) -> None:
        """Read the logs of tasks that run: before their launch is recorded, as viewers read them from then."""
        for task in now.tasks if self._logs else ():
            role = known.roles.get(task.role)
            if role and task.pod and task.pod_uid and self._logs and not known.has_ended(role, task, now.attempt):
                key = LogKey(role, task.task_index, now.attempt, task.attempt)
                self._logs.fetch(key, task.pod, task.pod_uid)

    def _report_of(self, end: TaskEnding) -> Report:
        key = LogKey(end.role, end.task.task_index, end.job_attempt, end.task.attempt)
        if self._logs:
            self._logs.finish(key, _LOG_SEC)
        console_logs.folder(self._run, *key)
        return task_ends.report(end, console_logs.end_of(self._run, *key))

    def _finish(self) -> None:
        """The job has ended: what it needed in the cluster besides the Framework goes, and its report is written."""
        with suppress(OSError, KedgeError):
            report.complete(self._run)
        with suppress(KedgeError):
            facts = self._found.facts
            remove_addons(self._found.api, self._found.name, priority=bool(facts.get("priority")))
