"""Follows a run while it is active: the controller's events, and between them the lines of the tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from kedge.contract import CURRENT, USER_ALL, USER_STDERR, USER_STDOUT
from kedge.runs import copies
from kedge.runs.events import Event, EventReader
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import is_controlled
from kedge.runs.logs import tail
from kedge.runs.merged_logs import LogMerger
from kedge.runs.task_logs import NO_LOGS, FirstLines, SelectedLogs, log_of
from kedge.runs.timed_log import LogSource, TaskLines, TimedLog

INTERVAL_SEC = 0.1
PROGRESS_SEC = 2.0  # how often progress bars, which do not end their line, are checked
_LONGEST_BAR = 4096
_AT_ONCE = 1 << 26  # bytes of lines between two looks at the events


class _ProgressBars:
    """The progress bars of the task attempts that are being followed."""

    def __init__(self) -> None:
        self._shown: dict[TimedLog, bytes] = {}
        self._checked = time.monotonic()

    def changed(self, logs: Iterable[TimedLog]) -> Iterator[TaskLines]:
        """The bars that have changed, now and then."""
        if time.monotonic() < self._checked + PROGRESS_SEC:
            return
        self._checked = time.monotonic()
        self._shown = {log: self._shown.get(log, b"") for log in logs}
        for log in self._shown:
            yield from self._of(log)

    def _of(self, log: TimedLog) -> Iterator[TaskLines]:
        """The current state of a bar, if it has changed (user-all receives only complete lines)."""
        for stream in (USER_STDERR, USER_STDOUT):
            unfinished = tail(log.folder, f"{stream}/{CURRENT}", _LONGEST_BAR).rpartition(b"\n")[2]
            bar = unfinished.rstrip(b"\r").rpartition(b"\r")[2].strip()
            if b"\r" in unfinished and bar and bar != self._shown[log]:
                self._shown[log] = bar
                yield TaskLines(log.source, bar + b"\n")


class _Following:
    """The task attempts whose logs are being read."""

    def __init__(self, run: Run, stream: str, wanted: Callable[[str, int], bool], known: Iterable[TimedLog]) -> None:
        self.run, self._stream, self._wanted = run, stream, wanted
        self._known = {log.source: log for log in known}
        self._attempt = 0
        self.reading: dict[tuple[str, int], TimedLog] = {}
        self.merger = LogMerger()

    def lines_before(self, event: Event, now: int) -> Iterator[TaskLines]:
        """The lines to be shown before an event."""
        self._attempt = event.get("attempt", self._attempt)
        key = event.get("role", ""), event.get("index", 0)
        if event["event"] == JobEvent.TASK_LAUNCHED and self._wanted(*key):
            source = LogSource(*key, self._attempt, event.get("task_attempt", 0))
            log = self._known[source] if source in self._known else log_of(self.run, source, self._stream)
            self.reading[key] = log
            self.merger.add(log)
        elif event["event"] in (JobEvent.TASK_COMPLETED, JobEvent.TASK_RETRYING) and key in self.reading:
            yield from self.merger.until(min(now, _time_of(event)), _AT_ONCE)
            yield from self.merger.finish(self.reading.pop(key))


def follow(
    run: Run,
    stream: str = USER_ALL,
    wanted: Callable[[str, int], bool] = lambda role, index: True,
    alive: Callable[[], bool] | None = None,
    progress: bool = False,
    pause: Callable[[float], object] = time.sleep,
    begin: SelectedLogs = NO_LOGS,
) -> Iterator[Event | TaskLines | None]:
    """Every event of the run and every line of the `wanted` tasks' `stream`, from the start until the run ends. The
    lines of all tasks are merged by time.

    A task's lines come before the event of its end. None means that there is nothing new at the moment. Ends early if
    the controller is no longer `alive`. With `progress`, also yields progress bars before their line ends. `pause`
    waits for a number of seconds, or until `alive` has changed. `begin`: of these logs only a part is wanted, for
    example the last lines (kedge.runs.task_logs.last_lines).
    """
    following = _Following(run, stream, wanted, begin.logs)
    first = FirstLines(begin.skipped)
    with following.merger, copies.KeptFresh(run) as fresh:
        for item in _items(following, fresh, alive or (lambda: is_controlled(run)), progress, pause):
            shown = first.without(item) if isinstance(item, TaskLines) else item
            if shown is not None or item is None:
                yield shown


def _items(
    following: _Following,
    fresh: copies.KeptFresh,
    alive: Callable[[], bool],
    progress: bool,
    pause: Callable[[float], object],
) -> Iterator[Event | TaskLines | None]:
    merger, events, bars = following.merger, EventReader(following.run.events), _ProgressBars()
    over = False
    while not over:
        fresh.look()
        over = not alive()  # checked before the last read, so that nothing is missed
        now = merger.refresh(time.time_ns())
        for event in events.events():
            yield from following.lines_before(event, now)
            yield event
            over = over or event["event"] == JobEvent.JOB_COMPLETED
        quiet = True
        for lines in merger.until(now, _AT_ONCE):
            quiet = False
            yield lines
        if progress:
            yield from bars.changed(following.reading.values())
        if quiet and not over:
            yield None
            pause(INTERVAL_SEC)
    yield from merger.finish_all()


def _time_of(event: Event) -> int:
    """The time of an event in nanoseconds since 1970; very late if it has none."""
    if not (text := event.get("time")):
        return 1 << 64
    return int(datetime.fromisoformat(text).timestamp() * 1e6) * 1000
