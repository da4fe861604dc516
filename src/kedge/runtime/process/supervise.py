"""Running one program at a time, stopping it when told to, and leaving nothing behind.

The stop ladder: the job's stop signal to the process group; after the grace period, or at a second request, SIGKILL to
the group and to every descendant, whatever session or group it has moved to.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable

from kedge.contract import StopPolicy
from kedge.runtime.process import procfs, signals
from kedge.runtime.process.children import Children
from kedge.runtime.process.loop import Loop
from kedge.runtime.process.procfs import ProcessStat
from kedge.runtime.process.spawn import Program, spawn
from kedge.runtime.process.time_limit import NO_LIMIT, TimeLimit

HOOK_RESERVE_SEC = 5.0  # of the grace period, kept for the runtime's own end
SHORTEST_HOOK_SEC = 1.0
TRY_GRACE_SEC = 10.0  # at most so long between TERM and KILL for a try of a hook that took too long
FAREWELL_SEC = 2.0  # between TERM and KILL for what is left when the task is over
_KILL_DEADLINE_SEC = 10.0  # whoever outlives SIGKILL for longer hangs in the kernel
_RESCAN_SEC = 0.05
_AGAIN_SEC = 0.2  # a program is executed by then, or, on a busy machine, after twice as long, and so on


class Supervisor:
    """Owns the signals of this process. `on_stop(signal_name)` hears of the first request to stop."""

    def __init__(self, loop: Loop, policy: StopPolicy, on_stop: Callable[[str], None]) -> None:
        self.stopped_by: str | None = None
        self.killed = False
        self.impatient = False  # a second request came
        self._loop = loop
        self._policy = policy
        self._signal = signals.by_name(policy.signal)
        self._on_stop = on_stop
        self._children = Children()
        self._group: int | None = None
        self._grace_end = math.inf
        self._deadline = math.inf
        self._give_up = math.inf
        self._again = math.inf
        self._pause = _AGAIN_SEC
        self._deaf: list[ProcessStat] = []
        self._is_hook = False
        loop.on_signal = self._on_signal

    @property
    def stopping(self) -> bool:
        """Whether the task has been told to end."""
        return self._grace_end != math.inf

    def stop(self) -> None:
        """Begin the ladder; called again, kill at once."""
        now = time.monotonic()
        if self.stopping:
            self.impatient = True
            self._deadline = now
            return
        self._grace_end = now + self._policy.grace_sec
        self._deadline = min(self._deadline, self._grace_end)
        self._ask_to_end()

    def run(
        self,
        program: Program,
        on_start: Callable[[int], None],
        broken: Callable[[], object],
        limit: TimeLimit | None = None,
    ) -> int:
        """Start the program and return its wait status when it has ended.

        `on_start(pid)` is called once it runs. When `broken()` becomes true, it is stopped. At the end of `limit`,
        which hooks have, it is stopped with all that it has started. CannotSpawn if it did not start.
        """
        self._is_hook, limit = limit is not None, limit or NO_LIMIT
        earlier = {each.identity for each in self.descendants()} if limit.next != math.inf else set()
        pid = spawn(program)
        self._children.expect(pid)
        self._group = pid
        on_start(pid)
        self._give_up = math.inf
        while (status := self._children.status(pid)) is None and time.monotonic() < self._give_up:
            self._loop.turn(min(self._deadline, limit.next, self._again))
            if broken() and not self.stopping:
                self.stop()
            if time.monotonic() >= self._deadline:
                self._kill()
            if time.monotonic() >= limit.next:
                self._end_try(limit, earlier)
            if time.monotonic() >= self._again:
                self._ask_again()
        if limit.passed:
            self._kill_since(earlier, time.monotonic() + _KILL_DEADLINE_SEC)
        self._group, self._again = None, math.inf
        return signal.SIGKILL if status is None else status

    def limit_hook(self) -> None:
        """After a stop: give the next program what is left of the grace period, but for a reserve."""
        if self.stopping:
            now = time.monotonic()
            self._deadline = max(now + SHORTEST_HOOK_SEC, self._grace_end - HOOK_RESERVE_SEC)

    def descendants(self) -> list[ProcessStat]:
        """Everything that runs below this process."""
        return procfs.descendants(os.getpid()) if self._children.reap() else []

    def end_descendants(self) -> tuple[list[ProcessStat], list[ProcessStat]]:
        """End everything below: TERM, then KILL after the rest of the grace period (or FAREWELL_SEC without a stop).

        Returns what was found, and what could not even be killed."""
        found = self.descendants()
        if found:
            now = time.monotonic()
            self._deadline = now if self.impatient else self._grace_end if self.stopping else now + FAREWELL_SEC
            _signal_each(found, signal.SIGTERM)
            _signal_each([each for each in found if each.state == "T"], signal.SIGCONT)
            self._await_end()
        return found, self.kill_descendants()

    def kill_descendants(self) -> list[ProcessStat]:
        """End everything below at once. Returns what even that could not end."""
        give_up = time.monotonic() + _KILL_DEADLINE_SEC
        while (left := self.descendants()) and time.monotonic() < give_up:
            self.killed = self.stopping
            _signal_each(left, signal.SIGKILL)
            self._deadline = time.monotonic() + _RESCAN_SEC
            self._await_end()
        return left

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._children.reap()
        elif number in signals.STOPS:
            if self.stopped_by is None:
                self.stopped_by = signals.name_of(number)
                self._on_stop(self.stopped_by)
            self.stop()
        else:
            self._signal_group(number)

    def _signal_group(self, number: int) -> None:
        if self._group is not None:
            _send(os.killpg, self._group, number)

    def _kill(self) -> None:
        now = time.monotonic()
        self.killed = True
        self._give_up = min(self._give_up, now + _KILL_DEADLINE_SEC)
        self._signal_group(signal.SIGKILL)
        _signal_each(self.descendants(), signal.SIGKILL)
        self._deadline = now + _RESCAN_SEC  # for whoever was forked meanwhile

    def _end_try(self, limit: TimeLimit, earlier: set[tuple[int, int]]) -> None:
        """One rung of the ladder of a program's own time limit; what was there before the program stays."""
        if limit.climb(min(self._policy.grace_sec, TRY_GRACE_SEC)):
            self._ask_to_end()
        else:
            self._signal_group(signal.SIGKILL)
            self._kill_since(earlier)

    def _kill_since(self, earlier: set[tuple[int, int]], deadline: float = 0.0) -> None:
        """Kill what was started since, and wait for its end until `deadline`."""
        while started := [each for each in self.descendants() if each.identity not in earlier]:
            _signal_each(started, signal.SIGKILL)
            if time.monotonic() >= deadline:
                return
            self._loop.turn(time.monotonic() + _RESCAN_SEC)

    def _ask_to_end(self) -> None:
        """The gentle signal; whoever is suspended takes it only when he goes on. bash with an EXIT trap, as hooks have
        it, loses it in a child that has been forked and has not executed its program yet, and then waits for that
        child: remember the children."""
        self._signal_group(self._signal)
        self._signal_group(signal.SIGCONT)
        if self._group is not None and self._is_hook:
            self._deaf = [each for each in self.descendants() if each.parent == self._group]
            self._pause = _AGAIN_SEC
            self._again = time.monotonic() + self._pause

    def _ask_again(self) -> None:
        """Whoever had to die of the signal and lives has not got it. The others may not run their programs yet."""
        alive = [each for each in self._deaf if (now := procfs.process(each.pid)) and now.identity == each.identity]
        self._deaf = [each for each in alive if not procfs.dies_of(each.pid, self._signal)]
        for each in alive:
            if each not in self._deaf:
                _send(os.kill, each.pid, self._signal)
        self._pause *= 2
        self._again = time.monotonic() + self._pause if self._deaf else math.inf

    def _await_end(self) -> None:
        while self._children.reap() and time.monotonic() < self._deadline:
            self._loop.turn(self._deadline)


def _signal_each(processes: list[ProcessStat], number: int) -> None:
    for each in processes:
        _send(os.kill, each.pid, number)


def _send(send: Callable[[int, int], None], target: int, number: int) -> None:
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or has become another user's (setuid), which only its own end helps
