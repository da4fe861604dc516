"""Follows a run while it is active: the controller's events, and between them the lines of the tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kedge.contract import CURRENT, USER_ALL, USER_STDERR, USER_STDOUT
from kedge.runs.controller_lock import is_held
from kedge.runs.events import Event, EventReader
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.logs import LineCutter, StreamReader, tail

INTERVAL_SEC = 0.1
PROGRESS_SEC = 2.0  # how often progress bars, which do not end their line, are checked
_LONGEST_BAR = 4096


class TaskLine(NamedTuple):
    """One line of a task (`worker:3`), with its newline if it has one, or a piece of a very long line (LineCutter)."""

    task: str
    line: bytes


class _TaskLog:
    """A task attempt whose log is being read."""

    def __init__(self, task: str, folder: Path, reader: StreamReader) -> None:
        self._task, self._folder, self._lines = task, folder, LineCutter()
        self._reader = reader
        self._bar = b""

    def more(self) -> Iterator[TaskLine]:
        """The lines of one chunk; none if there is nothing new."""
        if data := self._reader.read():
            yield from (TaskLine(self._task, line) for line in self._lines.feed(data))

    def progress(self) -> Iterator[TaskLine]:
        """The current state of a progress bar, if it has changed (user-all receives only complete lines)."""
        for stream in (USER_STDERR, USER_STDOUT):
            unfinished = tail(self._folder, f"{stream}/{CURRENT}", _LONGEST_BAR).rpartition(b"\n")[2]
            bar = unfinished.rstrip(b"\r").rpartition(b"\r")[2].strip()
            if b"\r" in unfinished and bar and bar != self._bar:
                self._bar = bar
                yield TaskLine(self._task, bar + b"\n")

    def rest(self) -> Iterator[TaskLine]:
        """All remaining lines of a task that has ended."""
        while data := self._reader.read():
            yield from (TaskLine(self._task, line) for line in self._lines.feed(data))
        if line := self._lines.rest():
            yield TaskLine(self._task, line)
        self._reader.close()


def follow(
    run: Run,
    stream: str = USER_ALL,
    wanted: Callable[[str, int], bool] = lambda role, index: True,
    alive: Callable[[], bool] | None = None,
    progress: bool = False,
    pause: Callable[[float], object] = time.sleep,
    reader: Callable[[Path, str], StreamReader] = StreamReader,
) -> Iterator[Event | TaskLine | None]:
    """Every event of the run and every line of the `wanted` tasks' `stream`, from the start until the run ends.

    A task's lines come before the event of its end. None means that there is nothing new at the moment. Ends early if
    the controller is no longer `alive`. With `progress`, also yields progress bars before their line ends. `pause`
    waits for a number of seconds, or until `alive` has changed. `reader` opens the stream of a task attempt's folder.
    """
    alive = alive or (lambda: is_held(run.lock))
    events = EventReader(run.events)
    attempt = 0
    reading: dict[tuple[str, int], _TaskLog] = {}
    over = False
    checked = time.monotonic()
    while not over:
        over = not alive()  # checked before the last read, so that nothing is missed
        for event in events.events():
            attempt = event.get("attempt", attempt)
            key = event.get("role", ""), event.get("index", 0)
            if event["event"] == JobEvent.TASK_LAUNCHED and wanted(*key):
                folder = run.task(*key, attempt, event.get("task_attempt", 0))
                reading[key] = _TaskLog(f"{key[0]}:{key[1]}", folder, reader(folder, stream))
            elif event["event"] in (JobEvent.TASK_COMPLETED, JobEvent.TASK_RETRYING) and key in reading:
                yield from reading.pop(key).rest()
            yield event
            over = over or event["event"] == JobEvent.JOB_COMPLETED
        quiet = True
        for task in list(reading.values()):
            for line in task.more():
                quiet = False
                yield line
        if progress and time.monotonic() > checked + PROGRESS_SEC:
            checked = time.monotonic()
            for task in reading.values():
                yield from task.progress()
        if quiet and not over:
            yield None
            pause(INTERVAL_SEC)
    for task in reading.values():
        yield from task.rest()
