"""Running one program at a time and services beside it, stopping it on request, and leaving no processes behind.

The stop ladder: first the role's stop signal to the process group of the command, or only to the command itself; after
the grace period, or at a second request, SIGKILL to the group and to every descendant, whatever session or group it has
moved to. What must run before the command is stopped comes first, within the grace period, while the command goes on.
"""

from __future__ import annotations

import os
import time

from kedge.contract import STOP_COMMAND, StopPolicy, TaskTimeLimit
from kedge.light import signal
from kedge.light.types import Callable
from kedge.runtime.process import procfs, signals
from kedge.runtime.process.children import Children
from kedge.runtime.process.loop import NEVER, Loop
from kedge.runtime.process.procfs import ProcessStat
from kedge.runtime.process.service_processes import ServiceProcesses
from kedge.runtime.process.spawn import Program, spawn
from kedge.runtime.process.time_limit import NO_LIMIT, TimeLimit

HOOK_RESERVE_SEC = 5.0  # part of the grace period that hooks may not use: the runtime itself needs it to finish
SHORTEST_HOOK_SEC = 1.0
TRY_GRACE_SEC = 10.0  # longest time between TERM and KILL when a try of a hook has timed out
LEFTOVER_GRACE_SEC = 2.0  # between TERM and KILL for processes that are left when the task is over
_KILL_DEADLINE_SEC = 10.0  # a process that survives SIGKILL for longer hangs in the kernel
_RESCAN_SEC = 0.05
_RESEND_SEC = 0.2  # a forked child has executed its program by then; on a busy machine after two, four … times as long


class RunningProgram:
    """A program that runs. Its pid is also its process group. `outer` is the command that goes on meanwhile, if this is
    a hook that runs before the command is stopped."""

    def __init__(
        self, pid: int, is_hook: bool, before_stop: Callable[[int], None] | None, outer: RunningProgram | None
    ) -> None:
        self.pid, self.is_hook, self.before_stop, self.outer = pid, is_hook, before_stop, outer
        self.waits = before_stop is not None or outer is not None  # a request to stop does not signal it at once


class Supervisor:
    """Handles the signals of this process. At the first request to stop, `on_stop(signal_name, None)` is called; when a
    time limit has passed, `on_stop(None, limit)`. `on_notice()`: the task will be stopped soon."""

    def __init__(
        self,
        loop: Loop,
        policy: StopPolicy,
        on_stop: Callable[[str | None, TaskTimeLimit | None], None],
        on_notice: Callable[[], None],
    ) -> None:
        self.stopped_by: str | None = None
        self.limit: TaskTimeLimit | None = None  # the time limit that has passed
        self.limit_reached: int | None = None  # when, in nanoseconds since 1970
        self.killed = False
        self.stop_repeated = False  # a second request arrived
        self.settled: tuple[int, float] | None = None  # when the task's outcome was final: time.time_ns and monotonic
        self.released = False  # a NOTICE has arrived since then
        self.limit_end = NEVER  # when the first time limit passes
        self.over = False  # nothing is to run any more, services included
        self.term_escalates = True  # whether a second TERM ends the grace period, as any other second request does
        self._loop = loop
        self._policy = policy
        self._signal = signals.by_name(policy.signal)
        self._on_stop, self._on_notice = on_stop, on_notice
        self._children = Children()
        self._services = ServiceProcesses()
        self._running: RunningProgram | None = None
        self._announced = False  # the command will be stopped soon
        self._grace_end = NEVER
        self._deadline = NEVER
        self._give_up = NEVER
        self._resend_at = NEVER
        self._resend_pause = _RESEND_SEC
        self._unsignalled: list[ProcessStat] = []  # children that may have missed the stop signal
        self._signalled: list[ProcessStat] = []  # the command's own processes, if only they got the stop signal
        loop.on_signal = self.on_signal

    @property
    def ends_now(self) -> bool:
        """Whether the grace period of a stop is over."""
        return self.stop_repeated or time.monotonic() >= self._grace_end

    @property
    def stopping(self) -> bool:
        """Whether a stop of the task was requested."""
        return self._grace_end != NEVER

    def stop(self) -> None:
        """Start the stop ladder. A second call kills at once."""
        now = time.monotonic()
        if self.stopping:
            self.stop_repeated = True
            self._deadline = now
            return
        self._grace_end = now + self._policy.grace_sec
        self._deadline = min(self._deadline, self._grace_end)
        if self._running and not self._running.waits:
            self._send_stop_signal()

    def reach(self, limit: TaskTimeLimit) -> None:
        """A time limit has passed: start the stop ladder, unless it has started."""
        if not self.stopping:
            self.limit, self.limit_reached = limit, time.time_ns()
            self._on_stop(None, limit)
            self.stop()

    def announce(self) -> bool:
        """The command will be stopped soon: run what must run before, while the command goes on. Does nothing without a
        command, or at a second call. Returns whether it did something."""
        command = self._running
        due = command is not None and command.before_stop is not None and not self.stopping and not self._announced
        self._announced = self._announced or due
        return due

    def run(
        self,
        program: Program,
        on_start: Callable[[int], None],
        broken: Callable[[], object],
        limit: TimeLimit | None = None,
        before_stop: Callable[[int], None] | None = None,
    ) -> int:
        """Start the program, wait for its end and return its wait status.

        `on_start(pid)` is called once it runs. When `broken()` becomes true, the program is stopped. When `limit` (only
        hooks have one) expires, the program and all processes it started are stopped. `before_stop(pid)` is called
        before the program is stopped, at most once; it may call this method for other programs. CannotSpawn if the
        program did not start.
        """
        limit, outer = limit or NO_LIMIT, self._running
        earlier = {each.identity for each in self.descendants()} if limit.next != NEVER else set()
        pid = spawn(program)
        self._children.expect(pid)
        self._running = running = RunningProgram(pid, limit is not NO_LIMIT, before_stop, outer)
        on_start(pid)
        if outer is None:
            self._give_up = NEVER
        while (status := self._children.status(pid)) is None and time.monotonic() < self._give_up:
            self._loop.turn(min(self._deadline, limit.next, self._resend_at))
            if broken() and not self.stopping:
                self.stop()
            if running.waits and outer is None:
                self._stop_after_hooks(running)
            if time.monotonic() >= self._deadline:
                self._kill()
            if time.monotonic() >= limit.next:
                self._end_try(limit, earlier)
            if time.monotonic() >= self._resend_at:
                self._resend_stop_signal()
        if limit.passed:
            self._kill_since(earlier, time.monotonic() + _KILL_DEADLINE_SEC)
        self._running, self._resend_at = outer, NEVER
        return signal.SIGKILL if status is None else status

    def settle(self) -> None:
        """The outcome of the task is final from now on, whatever happens until it ends."""
        self.settled, self.released = (time.time_ns(), time.monotonic()), False

    def start_service(self, program: Program, on_end: Callable[[int], None]) -> int:
        """Start a program that runs until the task ends, and return its pid. `on_end(wait_status)` is called when it
        has ended. CannotSpawn."""
        pid = spawn(program)
        self._children.watch(pid, on_end)
        self._services.add(pid)
        return pid

    def end_service(self, pid: int) -> None:
        """End a service and what it has started: TERM, then KILL after LEFTOVER_GRACE_SEC."""
        kill_at = time.monotonic() + LEFTOVER_GRACE_SEC
        _signal_each(self._services.of(pid, self.descendants()), signal.SIGTERM)
        while left := self._services.of(pid, self.descendants()):
            now = time.monotonic()
            if now >= kill_at + _KILL_DEADLINE_SEC:
                return
            if now >= kill_at:
                _signal_each(left, signal.SIGKILL)
            self._loop.turn(kill_at if now < kill_at else now + _RESCAN_SEC)
        self._children.reap()

    def _stop_after_hooks(self, command: RunningProgram) -> None:
        """Run what must run before the command is stopped, then send it the stop signal, if a stop was requested."""
        if (self.stopping or self._announced) and (before_stop := command.before_stop):
            command.before_stop = None
            if self._children.status(command.pid) is None and not self.stop_repeated:
                try:
                    before_stop(command.pid)
                finally:
                    self._running = command  # whatever has happened to the last of the programs
        if self.stopping and command.before_stop is None:
            command.waits = False
            if self._children.status(command.pid) is None:
                self._send_stop_signal()

    def limit_hook(self) -> None:
        """After a stop, limit the next program to the rest of the grace period, less HOOK_RESERVE_SEC."""
        if self.stopping:
            now = time.monotonic()
            self._deadline = max(now + SHORTEST_HOOK_SEC, self._grace_end - HOOK_RESERVE_SEC)

    def descendants(self) -> list[ProcessStat]:
        """All processes below this one."""
        return procfs.descendants(os.getpid()) if self._children.reap() else []

    def descendants_but_services(self) -> list[ProcessStat]:
        """All processes below this one but the services and theirs."""
        return self._services.split(self.descendants())[1]

    def end_descendants(self, *, services: bool) -> tuple[list[ProcessStat], list[ProcessStat]]:
        """End all processes below, or all but the services: TERM, then KILL after the rest of the grace period
        (LEFTOVER_GRACE_SEC without a stop, and for services alone).

        Returns the processes that were found, without services, and those that survived SIGKILL."""
        self._await_signalled()
        self.over = self.over or services
        of_services, found = self._services.split(self.descendants())
        ended = [*found, *of_services] if services else found
        if ended:
            now = time.monotonic()
            self._deadline = self._leftover_deadline(now)
            if not found:
                self._deadline = min(self._deadline, now + LEFTOVER_GRACE_SEC)
            _signal_each(ended, signal.SIGTERM)
            _signal_each([each for each in ended if each.state == "T"], signal.SIGCONT)
            self._await_end(services)
        return found, self.kill_descendants(services=services)

    def _await_signalled(self) -> None:
        """Wait until the processes that got the stop signal alone have ended, at the longest for the grace period."""
        self._deadline = self._leftover_deadline(time.monotonic()) if self._signalled else self._deadline
        while any(map(procfs.is_alive, self._signalled)) and time.monotonic() < self._deadline:
            self._loop.turn(self._deadline)
            self._children.reap()
        self._signalled = []

    def kill_descendants(self, *, services: bool = True) -> list[ProcessStat]:
        """Kill all processes below, or all but the services. Returns those that survived."""
        self.over = self.over or services
        give_up = time.monotonic() + _KILL_DEADLINE_SEC
        while left := self.descendants() if services else self.descendants_but_services():
            if time.monotonic() >= give_up:
                break
            if self._services.split(left)[1]:
                self.killed = self.stopping
            _signal_each(left, signal.SIGKILL)
            self._deadline = time.monotonic() + _RESCAN_SEC
            self._await_end(services)
        return left

    def _leftover_deadline(self, now: float) -> float:
        if self.stop_repeated:
            return now
        return self._grace_end if self.stopping else now + LEFTOVER_GRACE_SEC

    def on_signal(self, number: int) -> None:
        """Handle a signal of this process, or a request that has the effect of one."""
        if number == signal.SIGCHLD:
            self._children.reap()
        elif number in signals.STOPS:
            self._stop_requested(signals.name_of(number))
        elif number == signals.NOTICE:
            self.released = True
            self._on_notice()
        else:
            self._forward(number)

    def _stop_requested(self, name: str) -> None:
        first, self.stopped_by = self.stopped_by is None, self.stopped_by or name
        if first and self.limit and name == "TERM":
            return  # the same request: the controller knows the limit, too; to end the grace period it sends INT
        if not first and name == "TERM" and not self.term_escalates:
            return  # a scheduler sends it to all processes of a task, and the task's agent has passed it on
        if first:
            self._on_stop(name, None)
        self.stop()

    def _forward(self, number: int) -> None:
        """Pass a signal on to the command, even while hooks run before it is stopped."""
        if self._running:
            _send(os.killpg, (self._running.outer or self._running).pid, number)

    def _signal_group(self, number: int) -> None:
        if self._running:
            _send(os.killpg, self._running.pid, number)

    def _kill(self) -> None:
        now = time.monotonic()
        self.killed = True
        self._give_up = min(self._give_up, now + _KILL_DEADLINE_SEC)
        self._signal_group(signal.SIGKILL)
        _signal_each(self.descendants(), signal.SIGKILL)
        self._deadline = now + _RESCAN_SEC  # then kill processes that were forked meanwhile

    def _end_try(self, limit: TimeLimit, earlier: set[tuple[int, int]]) -> None:
        """One rung of the stop ladder of a program's own time limit. The `earlier` processes are left alone."""
        if limit.climb(min(self._policy.grace_sec, TRY_GRACE_SEC)):
            self._send_stop_signal()
        else:
            self._signal_group(signal.SIGKILL)
            self._kill_since(earlier)

    def _kill_since(self, earlier: set[tuple[int, int]], deadline: float = 0.0) -> None:
        """Kill all descendants but the `earlier` ones, and wait for their end until `deadline`."""
        while started := [each for each in self._below_hook() if each.identity not in earlier]:
            _signal_each(started, signal.SIGKILL)
            if time.monotonic() >= deadline:
                return
            self._loop.turn(time.monotonic() + _RESCAN_SEC)

    def _below_hook(self) -> list[ProcessStat]:
        """All processes but services, or those of the hook alone if it runs beside the command, which goes on."""
        found = self.descendants_but_services()
        if self._running is None or self._running.outer is None:
            return found
        hook = self._running.pid
        below = {each.pid for each in procfs.descendants(hook)}
        return [each for each in found if each.group == hook or each.pid in below]

    def _send_stop_signal(self) -> None:
        """Send the stop signal to the group, then SIGCONT, because a suspended process takes signals only when it
        continues. bash with an EXIT trap (which hooks set) loses the signal in a child that it has forked but that has
        not executed its program yet, and then waits for that child. So remember the children, to signal them again."""
        if self._running is None:
            return
        if self._policy.target == STOP_COMMAND and not self._running.is_hook:
            self._signal_command()
            return
        self._signal_group(self._signal)
        self._signal_group(signal.SIGCONT)
        if self._running.is_hook:
            self._unsignalled = [each for each in self.descendants() if each.parent == self._running.pid]
            self._resend_pause = _RESEND_SEC
            self._resend_at = time.monotonic() + self._resend_pause

    def _signal_command(self) -> None:
        """Send the stop signal to the command's own processes, and remember them: the processes that they have started
        are theirs to stop."""
        if self._running:
            self._signalled = procfs.command_processes(self._running.pid, self._signal)
            _signal_each(self._signalled, self._signal)
            _signal_each(self._signalled, signal.SIGCONT)

    def _resend_stop_signal(self) -> None:
        """A child that the signal would kill but that is alive has missed it: send it again. Of the other children
        some may not have executed their programs yet: look at them again later."""
        children = self._unsignalled
        alive = [each for each in children if (now := procfs.process(each.pid)) and now.identity == each.identity]
        self._unsignalled = [each for each in alive if not procfs.has_default_action(each.pid, self._signal)]
        for each in alive:
            if each not in self._unsignalled:
                _send(os.kill, each.pid, self._signal)
        self._resend_pause *= 2
        self._resend_at = time.monotonic() + self._resend_pause if self._unsignalled else NEVER

    def _await_end(self, services: bool) -> None:
        while self._children.reap() if services else self.descendants_but_services():
            if time.monotonic() >= self._deadline:
                break
            self._loop.turn(self._deadline)


def _signal_each(processes: list[ProcessStat], number: int) -> None:
    for each in processes:
        _send(os.kill, each.pid, number)


def _send(send: Callable[[int, int], None], target: int, number: int) -> None:
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or runs as another user now (setuid) and cannot be signalled
