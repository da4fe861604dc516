"""The logs of a run's tasks, or parts of them, merged by time: `selected` and `merged` for kedge logs, `last_lines` to
begin to follow an active run with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kedge.contract import USER_ALL
from kedge.runs.folder import Run
from kedge.runs.log_places import LogPlaces, size
from kedge.runs.merged_logs import LogMerger, allow
from kedge.runs.timed_log import BLOCK, LogSource, TaskLines, TimedLog

_BLOCKS = 1 << 25  # bytes of all blocks together
_SMALLEST_BLOCK = 1 << 12


class LineRange(NamedTuple):
    """The lines printed at `since` or later and before `until` (nanoseconds since 1970), and of these the last
    `tail`."""

    since: int | None = None
    until: int | None = None
    tail: int | None = None

    @property
    def by_time(self) -> bool:
        """Whether lines with an unknown time cannot be selected."""
        return self.since is not None or self.until is not None


ALL_LINES = LineRange()


class SelectedLogs(NamedTuple):
    """Logs that are about to be merged. The first `skipped` lines of all are not wanted. `untimed` are the tasks whose
    lines cannot be selected, because their times are unknown."""

    logs: Sequence[TimedLog]
    skipped: int = 0
    untimed: tuple[LogSource, ...] = ()


NO_LOGS = SelectedLogs(())


def sources(run: Run, attempt: int) -> list[LogSource]:
    """The task attempts of a job attempt that have a folder, sorted."""
    return [LogSource(task.role, task.task_index, attempt, task.task_attempt) for task in run.tasks(attempt)]


def log_of(run: Run, source: LogSource, stream: str, block: int = BLOCK) -> TimedLog:
    """The log of a task attempt."""
    return TimedLog(source, run.task(*source), stream, block)


def selected(
    run: Run, wanted: Sequence[LogSource], stream: str, lines: LineRange = ALL_LINES, *, growing: bool = False
) -> SelectedLogs:
    """What the logs of these task attempts contain now. With `growing`, also what is added to them later."""
    block = max(_SMALLEST_BLOCK, min(BLOCK, _BLOCKS // max(1, len(wanted))))
    allow(len(wanted))
    logs, count, untimed = [], 0, []
    for source in wanted:
        log = log_of(run, source, stream, block)
        places = LogPlaces(log.folder, stream)
        part = places.whole()
        if size(part) and lines.by_time and not places.has_times(part):
            untimed.append(source)
            part = []
            log.left = 0
        part = part if lines.since is None else places.since(part, lines.since)
        part = part if lines.until is None else places.until(part, lines.until)
        if lines.tail is not None:
            part, found = places.last_lines(part, lines.tail)
            count += found
        if part:
            log.begin_at(part[0].inode, part[0].start)
        if not growing:
            log.left = size(part)
        logs.append(log)
    return SelectedLogs(logs, max(0, count - (lines.tail or 0)), tuple(untimed))


def merged(logs: SelectedLogs, *, timed: bool = True) -> Iterator[TaskLines]:
    """The lines of logs that do not grow, merged by time. If nobody needs the times (not `timed`), those of a single
    task are read without."""
    several = len({log.source.task for log in logs.logs}) > 1
    for log in logs.logs:
        log.timed = timed or several
    first = FirstLines(logs.skipped)
    with LogMerger(logs.logs) as merger:
        for lines in merger.finish_all():
            if rest := first.without(lines):
                yield rest


def to_follow(run: Run, wanted: Callable[[str, int], bool], stream: str, lines: LineRange) -> SelectedLogs:
    """What to begin with when following an active run: for kedge.runs.follow.follow. A tail is that of the latest
    attempt of the job."""
    found = [source for attempt in run.attempts() for source in sources(run, attempt) if wanted(*source[:2])]
    if lines.tail is None:
        return selected(run, found, stream, lines, growing=True)
    latest = [source for source in found if source.attempt == found[-1].attempt]
    begin = selected(run, latest, stream, lines, growing=True)
    earlier = [log_of(run, source, stream) for source in found[: -len(latest)]]
    for log in earlier:
        log.left = 0
    return begin._replace(logs=[*earlier, *begin.logs])


def last_lines(run: Run, count: int, stream: str = USER_ALL) -> SelectedLogs:
    """The last `count` lines of all tasks of an active run, merged by time, and all that is added to them later: the
    `begin` of kedge.runs.follow.follow for a viewer that comes later. `merged` yields them without following."""
    return to_follow(run, lambda role, index: True, stream, LineRange(tail=count))


class FirstLines:
    """Drops the first `count` lines of what it is given."""

    def __init__(self, count: int) -> None:
        self._left = count

    def without(self, lines: TaskLines) -> TaskLines | None:
        """What is to be shown of these lines."""
        if not self._left:
            return lines
        newlines = lines.data.count(b"\n") + lines.last
        if newlines <= self._left:
            self._left -= newlines
            return None
        at = 0
        for _ in range(self._left):
            at = lines.data.index(b"\n", at) + 1
        self._left = 0
        return lines._replace(data=lines.data[at:])
