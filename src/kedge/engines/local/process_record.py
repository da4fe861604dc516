"""The processes of a run: recorded while its controller lives, and found again when the controller is lost.

The descendants of a supervisor stay below it, since it is a subreaper; if supervisors are lost, too, they stay below
the controller's keeper. If the keeper is lost, orphans are identified by their control group, by their environment, and
by the sessions that supervisors made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

from kedge import keeper, processes
from kedge.engines.local import cgroups
from kedge.errors import CannotRun, DiskFull
from kedge.processes import Process
from kedge.runs import events
from kedge.runs.events import Event, EventLog
from kedge.runs.folder import Run

FILE = "processes.jsonl"
_KILL_SEC = 2.0  # enough for every process that does not hang in the kernel
_MOST_SHOWN = 5
# The events of the file; facts: boot, pid, start_time, starts.
_KEEPER = "keeper"
_SUPERVISOR = "supervisor"
_SURVIVOR = "survivor"  # a process that could not be ended


class RecordedProcess(NamedTuple):
    """A process that was recorded since the last boot of the machine. A supervisor's pid is also its session id.
    `starts` is the value of `processes.starts` before the process started."""

    kind: str
    process: Process
    starts: int


class Record:
    """The record of a run's processes. Only the controller writes it."""

    def __init__(self, run: Run) -> None:
        self._log = EventLog(run.path / FILE)
        self._boot, self._starts = processes.boot_id(), processes.starts()
        if found := keeper.above():
            self._add(_KEEPER, found)

    def supervisor(self, pid: int) -> None:
        """Record a supervisor that has just started."""
        if found := processes.identify(pid):
            self._add(_SUPERVISOR, found)

    def survivors(self, found: Sequence[Process]) -> None:
        """Record processes that could not be ended: the parents that identified them may be gone."""
        for process in found:
            self._add(_SURVIVOR, process)

    def _add(self, kind: str, process: Process) -> None:
        with suppress(DiskFull):  # the process may then not be found later
            self._log.append(kind, boot=self._boot, starts=self._starts, **process._asdict())

    def close(self) -> None:
        self._log.close()


def supervisors(run: Run) -> list[Process]:
    """The recorded supervisors that are still running."""
    started = (known.process for known in _recorded(run) if known.kind == _SUPERVISOR)
    return [process for process in started if processes.is_alive(process)]


def find(run: Run, seen: Iterable[Process] = ()) -> list[Process]:
    """Every process that belongs to the run, as those in `seen` do, except the caller."""
    recorded = list(_recorded(run))
    sessions = {known.process.pid: known.starts for known in recorded if known.kind == _SUPERVISOR}
    roots = {each.pid for each in (*seen, *(known.process for known in recorded)) if processes.is_alive(each)}
    roots |= {each.pid for each in processes.of_job(run.id)}
    if group := cgroups.find(group_name(run)):
        roots |= set(cgroups.pids(group))
    # A session without a known process counts only as long as its id cannot have been reused.
    unique = processes.starts() - processes.most_pids()
    roots |= set(processes.in_sessions({session for session, starts in sessions.items() if starts > unique}))
    return processes.related(roots, sessions)


def end(run: Run) -> None:
    """Kill every process of the run. CannotRun names those that are left; they are recorded."""
    seen: set[Process] = set()

    def known() -> list[Process]:
        seen.update(found := find(run, seen))
        return found

    left = processes.kill(known)
    if group := cgroups.find(group_name(run)):
        if left:
            cgroups.kill(group)  # even processes that now belong to another user
            left = processes.wait(left, _KILL_SEC)
        cgroups.remove(group)
    if left:
        with closing(Record(run)) as record:
            record.survivors(left)
        raise CannotRun(f"{run.id} is not stopped: {survivors(left)}")


def survivors(left: Sequence[Process]) -> str:
    """A message that names the processes that cannot be ended, and why."""
    more = f"; and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
    return "some of its processes cannot be ended: " + "; ".join(map(processes.why_alive, left[:_MOST_SHOWN])) + more


def group_name(run: Run) -> str:
    """The name of the run's control group."""
    return f"kedge-{run.id}"


def _recorded(run: Run) -> Iterator[RecordedProcess]:
    with suppress(OSError):
        boot = processes.boot_id()
        for event in events.read(run.path / FILE):
            if event.get("boot") == boot and (found := _parse(event)):
                yield found


def _parse(event: Event) -> RecordedProcess | None:
    """The process that an event names; None if it is malformed, since tasks can write to the file."""
    pid, start_time, starts = (event.get(name) for name in ("pid", "start_time", "starts"))
    if type(pid) is not int or type(start_time) is not int or type(starts) is not int or pid <= 1:
        return None
    return RecordedProcess(str(event.get("event")), Process(pid, start_time), starts)
