"""Which processes belong to a run: written down while its controller lives, found again when that is lost.

What is below a supervisor stays below it, as it is a subreaper; when supervisors are lost, too, it stays below the
controller's keeper. When that is lost, orphans are known by their control group, by the environment they got, and by
sessions that supervisors have made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from kedge import keeper, processes
from kedge.engines.local import cgroups
from kedge.errors import CannotRun, DiskFull
from kedge.processes import Process
from kedge.runs import events
from kedge.runs.events import Event, EventLog
from kedge.runs.folder import Run

FILE = "processes.jsonl"
_KILL_SEC = 2.0  # enough for all that is not hung in the kernel
_MOST_SHOWN = 5
# Events, with boot, pid, start_time, starts.
_KEEPER = "keeper"
_SUPERVISOR = "supervisor"
_SURVIVOR = "survivor"  # of an attempt to end the run
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class RecordedProcess(NamedTuple):
    """A process that was recorded in this boot of the machine. A supervisor's pid is also the number of its session.
    `starts` is what `processes.starts` said before its start."""

    kind: str
    process: Process
    starts: int


class Record:
    """Written by the controller alone, which closes it."""

    def __init__(self, run: Run) -> None:
        self._log = EventLog(run.path / FILE)
        self._boot, self._starts = _BOOT.read_text().strip(), processes.starts()
        if found := keeper.above():
            self._add(_KEEPER, found)

    def supervisor(self, pid: int) -> None:
        """Add one that has just been started."""
        if found := processes.identify(pid):
            self._add(_SUPERVISOR, found)

    def survivors(self, found: Sequence[Process]) -> None:
        """Add what could not be ended: its parents, by which it was known, may be gone."""
        for process in found:
            self._add(_SURVIVOR, process)

    def _add(self, kind: str, process: Process) -> None:
        with suppress(DiskFull):  # then less is known later
            self._log.append(kind, boot=self._boot, starts=self._starts, **process._asdict())

    def close(self) -> None:
        self._log.close()


def supervisors(run: Run) -> list[Process]:
    """Those that still run."""
    started = (known.process for known in _recorded(run) if known.kind == _SUPERVISOR)
    return [process for process in started if processes.is_alive(process)]


def find(run: Run, seen: Iterable[Process] = ()) -> list[Process]:
    """Every process that is known to belong to the run, as do those `seen`, but for the caller."""
    recorded = list(_recorded(run))
    sessions = {known.process.pid: known.starts for known in recorded if known.kind == _SUPERVISOR}
    roots = {each.pid for each in (*seen, *(known.process for known in recorded)) if processes.is_alive(each)}
    roots |= {each.pid for each in processes.of_job(run.id)}
    if group := cgroups.find(group_name(run)):
        roots |= set(cgroups.pids(group))
    # Without anybody who is known in it, a session is known only while its number cannot have been given out again.
    unique = processes.starts() - processes.most_pids()
    roots |= set(processes.in_sessions({session for session, starts in sessions.items() if starts > unique}))
    return processes.related(roots, sessions)


def end(run: Run) -> None:
    """Kill every process of the run. CannotRun names those that are left, which are remembered."""
    seen: set[Process] = set()

    def known() -> list[Process]:
        seen.update(found := find(run, seen))
        return found

    left = processes.kill(known)
    if group := cgroups.find(group_name(run)):
        if left:
            cgroups.kill(group)  # also what has become another user's
            left = processes.wait(left, _KILL_SEC)
        cgroups.remove(group)
    if left:
        with closing(Record(run)) as record:
            record.survivors(left)
        raise CannotRun(f"{run.id} is not stopped: {survivors(left)}")


def survivors(left: Sequence[Process]) -> str:
    """Who cannot be ended, and why, for the user."""
    more = f"; and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
    return "it cannot end all of its processes: " + "; ".join(map(processes.why_alive, left[:_MOST_SHOWN])) + more


def group_name(run: Run) -> str:
    """Of the run's control group."""
    return f"kedge-{run.id}"


def _recorded(run: Run) -> Iterator[RecordedProcess]:
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
        for event in events.read(run.path / FILE):
            if event.get("boot") == boot and (found := _known(event)):
                yield found


def _known(event: Event) -> RecordedProcess | None:
    """What a line says, if anything: tasks can write there, too."""
    pid, start_time, starts = (event.get(name) for name in ("pid", "start_time", "starts"))
    if type(pid) is not int or type(start_time) is not int or type(starts) is not int or pid <= 1:
        return None
    return RecordedProcess(str(event.get("event")), Process(pid, start_time), starts)
