"""Starts and watches the supervisors of a local job: one process per task attempt, all children of the controller."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from kedge import packed_runtime, processes
from kedge.claims.ports import HeldPort
from kedge.contract import (
    CANNOT_START,
    DISK_FULL,
    JOB_ID_VARIABLE,
    PERHAPS_MEMORY,
    RUNTIME_BROKE,
    SUPERVISOR_LOG,
    Report,
)
from kedge.engines.base import Deadline, Ended, Task, Update
from kedge.engines.controller import reports, supervisor_events, time_limits
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.states import Emit
from kedge.engines.local import process_record, warm_parent
from kedge.engines.local.placement import LocalPlaces
from kedge.engines.local.warm_parent import WarmParent, WarmParentLost
from kedge.errors import DiskFull
from kedge.runs.atomic_files import disk_errors
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

_PYTHON = (sys.executable, "-I", "-S")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class LocalBackend:
    """Runs task attempts on this machine. It never waits; the controller does, on `fileno`.

    `open_files` is the soft limit to restore for the user's commands. `emit` receives an event about processes that
    cannot be ended. `join` is called before a process is started. `tasks` is the number of tasks to expect.
    """

    def __init__(
        self, run: Run, places: LocalPlaces, open_files: int, emit: Emit, join: Callable[[], None], tasks: int
    ) -> None:
        self._run, self._places, self._open_files, self._emit, self._join = run, places, open_files, emit, join
        self._record = process_record.Record(run)
        self._start_file = packed_runtime.start_file(os.environ)
        self._environment = {**os.environ, JOB_ID_VARIABLE: run.id}  # also identifies the supervisors as the job's
        self._children: dict[int, Launch] = {}  # by pid
        self._pids: dict[Task, int] = {}
        self._killed: set[int] = set()  # by pid, too
        self._failed: list[Ended] = []  # attempts that could not be started
        # One pipe for all supervisors: each writes whole event lines, short enough to be atomic.
        self._events, self._events_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._partial = b""
        self._warm = self._warm_parent() if tasks >= warm_parent.WORTHWHILE else None

    def _warm_parent(self) -> WarmParent | None:
        with suppress(OSError):  # without it, every supervisor is a new interpreter
            return WarmParent(self._launcher(), self._environment, STOP_SIGNALS, len(os.fsencode(self._run.path)))
        return None

    def _launcher(self) -> list[str]:
        self._join()  # all that is started from it is in the run's group
        start = self._start_file if self._start_file.exists() else packed_runtime.FOLDER  # caches may be cleared
        return [*_PYTHON, str(start)]

    def place(self, attempt: int) -> None:
        self._places.reserve(attempt)

    def adopt(self, attempt: int, running: Mapping[Task, int]) -> None:
        raise AssertionError("tasks on one machine end with their controller")

    def start(self, task: Task, attempt: int, task_attempt: int, deadlines: tuple[Deadline, ...]) -> None:
        folder = str(self._run.task(task.role, task.task_index, attempt, task_attempt))
        child = Launch(task, folder, attempt, task_attempt, time.time_ns())
        holds = self._places.holds(task)
        try:
            with disk_errors(folder):
                limits = time_limits.left(deadlines)
                spec = self._places.write_spec(task, folder, attempt, task_attempt, limits)
                log = os.open(os.path.join(folder, SUPERVISOR_LOG), _LOG, 0o600)
                try:
                    pid = self._spawn(spec, log, holds, self._places.locks(task))
                finally:
                    os.close(log)
        except (OSError, DiskFull) as error:
            self._failed.append(Ended(task, _not_started(child, error)))
        else:
            self._children[pid], self._pids[task] = child, pid
            self._record.supervisor(pid)
        finally:
            _close_all(holds)

    def _spawn(self, spec: str, log: int, holds: list[HeldPort], keeps: list[int]) -> int:
        arguments = [spec, "--open-files", str(self._open_files)]
        arguments += ["--site", site] if (site := _site()) else []
        passed = {"--status": [self._events_in], "--hold": [hold.fileno() for hold in holds], "--keep": keeps}
        if self._warm and sum(map(len, passed.values())) <= warm_parent.MOST_FDS:
            try:
                return self._warm.spawn(arguments, log, passed, lambda: _close_all(holds))
            except WarmParentLost:
                self._warm.kill()
                self._warm = None
        return self._spawn_new(arguments, log, passed)

    def _spawn_new(self, arguments: list[str], log: int, passed: dict[str, list[int]]) -> int:
        """Start a supervisor in an interpreter of its own."""
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        argv = [*self._launcher(), *arguments]
        for option, fds in passed.items():
            argv += [option, ",".join(map(str, fds))]
        inherited = [fd for fds in passed.values() for fd in fds]
        for fd in inherited:
            os.set_inheritable(fd, True)
        try:
            # In a new session, because the terminal's Ctrl-C is for the controller alone. Stop signals stay blocked
            # until the supervisor can handle them.
            return os.posix_spawn(
                argv[0], argv, self._environment, file_actions=actions, setsid=True, setsigmask=STOP_SIGNALS
            )
        finally:
            for fd in inherited:
                os.set_inheritable(fd, False)

    def warn(self, task: Task) -> None:
        self._signal(task, signal.SIGPWR)

    def stop(self, task: Task) -> None:
        self._signal(task, signal.SIGTERM)

    def end_grace(self, task: Task) -> None:
        # The second request, and not by the same signal: one that waits to be taken swallows all others of its kind.
        self._signal(task, signal.SIGINT)

    def kill(self, task: Task) -> None:
        if pid := self._pids.get(task):
            self._killed.add(pid)
            processes.kill_tree(pid)

    def _signal(self, task: Task, number: signal.Signals) -> None:
        # A child that has ended keeps its pid until it is reaped, so the signal cannot reach another process.
        if pid := self._pids.get(task):
            os.kill(pid, number)
            if processes.is_suspended(pid):
                os.kill(pid, signal.SIGCONT)

    def fileno(self) -> int:
        return self._events

    due = math.inf

    def poll(self) -> list[Update]:
        failed, self._failed = self._failed, []
        return [*failed, *self._event_updates(), *self._reaped()]

    def _event_updates(self) -> list[Update]:
        """The updates from the supervisors' event lines."""
        lines, self._partial = supervisor_events.lines(self._partial + supervisor_events.read(self._events))
        updates = [supervisor_events.of_line(line) for line in lines]
        return [update for update in updates if update and update.task in self._pids]

    def _reaped(self) -> list[Ended]:
        """Reap every supervisor that has ended. As a subreaper, the controller also reaps orphans of killed ones."""
        ended = []
        while True:
            try:
                pid, ending = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if self._warm and pid == self._warm.pid:
                self._warm.close()
                self._warm = None
            if child := self._children.pop(pid, None):
                del self._pids[child.task]
                report = self._report(child, os.waitstatus_to_exitcode(ending), pid in self._killed)
                ended.append(Ended(child.task, report))
        return ended

    def _report(self, child: Launch, code: int, killed: bool) -> Report:
        if report := reports.read(child):
            return report
        # The supervisor was killed, or could not run at all. Its remaining processes are ended now.
        processes.kill_orphans({*self._children, *([self._warm.pid] if self._warm else [])})
        return reports.of_forced_stop(child) if killed else _without_report(child, code)

    def close(self) -> None:
        if self._warm:
            self._warm.kill()
        for pid in self._children:  # there are none, except after a fault
            processes.kill_tree(pid)
        if left := processes.kill_orphans(()):
            self._emit(JobEvent.PROCESSES_LEFT, text=process_record.survivors(left))
        self._record.close()
        self._places.release()
        os.close(self._events)
        os.close(self._events_in)


@functools.cache
def _site() -> str | None:
    """The folder of installed packages that contains google-re2, which the supervisors need to diagnose failures."""
    found = importlib.util.find_spec("re2")
    return os.path.dirname(os.path.dirname(found.origin)) if found and found.origin else None


def _close_all(holds: list[HeldPort]) -> None:
    for hold in holds:
        hold.close()


def _without_report(child: Launch, code: int) -> Report:
    if code == -signal.SIGKILL:
        what = "the task's supervisor was killed by SIGKILL, perhaps because this machine ran out of memory"
        return reports.of_kill(child, -code, what, PERHAPS_MEMORY)
    if code < 0:
        return reports.of_kill(child, -code, f"the task's supervisor was killed by {signal.Signals(-code).name}")
    what = f"the task's supervisor ended with exit code {code} and no report; see {child.folder}/{SUPERVISOR_LOG}"
    return reports.of_end(child, code, what)


def _not_started(child: Launch, error: Exception) -> Report:
    reason = DISK_FULL if isinstance(error, DiskFull) else CANNOT_START
    return reports.ended(child, RUNTIME_BROKE, reason, f"the task's supervisor could not be started: {error}")
