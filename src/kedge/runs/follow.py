"""Following a run while it goes on: the controller's events, and between them what the tasks say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kedge.contract import USER_ALL
from kedge.runs import status
from kedge.runs.events import Event, Tail
from kedge.runs.folder import Run
from kedge.runs.lock import is_held
from kedge.runs.logs import Lines, StreamReader

INTERVAL_SEC = 0.1


class LogLine(NamedTuple):
    """One line of a task (`worker:3`), with its newline if it has one."""

    task: str
    line: bytes


class _Open:
    """A task attempt whose log is being read."""

    def __init__(self, task: str, path: str) -> None:
        self._task, self._reader, self._lines = task, StreamReader(path), Lines()

    def more(self) -> Iterator[LogLine]:
        """The lines of one chunk; none when there is nothing new now."""
        if data := self._reader.read():
            yield from (LogLine(self._task, line) for line in self._lines.feed(data))

    def rest(self) -> Iterator[LogLine]:
        """Everything up to the end; the task has ended."""
        while data := self._reader.read():
            yield from (LogLine(self._task, line) for line in self._lines.feed(data))
        if line := self._lines.rest():
            yield LogLine(self._task, line)
        self._reader.close()


def follow(
    run: Run,
    stream: str = USER_ALL,
    wanted: Callable[[str, int], bool] = lambda role, index: True,
    alive: Callable[[], bool] | None = None,
) -> Iterator[Event | LogLine | None]:
    """Every event of the run and every line of the `wanted` tasks' `stream`, from the start until the run has ended.

    A task's lines come before the event of its end. None now and then: nothing new at the moment. Ends early when the
    controller is not `alive` any more.
    """
    alive = alive or (lambda: is_held(run.lock))
    tail = Tail(run.events)
    attempt = 0
    reading: dict[tuple[str, int], _Open] = {}
    over = False
    while not over:
        over = not alive()  # looked at before the last reading, so that nothing said before is missed
        for event in tail.read_new():
            attempt = event.get("attempt", attempt)
            key = event.get("role", ""), event.get("index", 0)
            if event["event"] == status.TASK_LAUNCHED and wanted(*key):
                path = run.task(*key, attempt, event.get("task_attempt", 0)) / stream
                reading[key] = _Open(f"{key[0]}:{key[1]}", str(path))
            elif event["event"] in (status.TASK_COMPLETED, status.TASK_RETRYING) and key in reading:
                yield from reading.pop(key).rest()
            yield event
            over = over or event["event"] == status.JOB_COMPLETED
        quiet = True
        for task in list(reading.values()):
            for line in task.more():
                quiet = False
                yield line
        if quiet and not over:
            yield None
            time.sleep(INTERVAL_SEC)
    for task in reading.values():
        yield from task.rest()
