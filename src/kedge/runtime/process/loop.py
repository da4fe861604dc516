"""The supervisor's event loop: it sleeps in poll(2) until a pipe is ready, a signal arrives or a deadline passes."""

from __future__ import annotations

import os
import select
import time

from kedge.light import signal
from kedge.light.types import Callable

Handler = Callable[[int], None]

READABLE = select.POLLIN
WRITABLE = select.POLLOUT
NEVER = float("inf")  # a deadline
_LONGEST_MS = 2**31 - 1  # of poll(2): 24 days; a turn that ends early does no harm


class Loop:
    """Calls `handler(poll_events)` when a watched descriptor is ready, and `on_signal(number)` for every signal that
    has a Python handler. Handlers must not block."""

    def __init__(self) -> None:
        self.on_signal: Callable[[int], None] = _nothing
        self._poll = select.poll()
        self._handlers: dict[int, Handler] = {}
        self._alarms: list[tuple[float, Callable[[], None]]] = []
        self._wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.watch(self._wake, READABLE, self._take_signals)

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        """Watch `fd` for `events` (READABLE, WRITABLE), replacing an earlier watch."""
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`, if it is watched."""
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def alarm(self, when: float, ring: Callable[[], None]) -> None:
        """Call `ring` once, as soon as possible after `when` (of time.monotonic), in whatever turn."""
        self._alarms.append((when, ring))

    def silence(self) -> None:
        """Forget all alarms."""
        self._alarms.clear()

    def turn(self, deadline: float = NEVER) -> None:
        """Sleep until a descriptor is ready or `deadline` (of time.monotonic) passes, then call the handlers."""
        if self._alarms:
            deadline = min(deadline, *(when for when, _ in self._alarms))
        for fd, events in self._poll.poll(_milliseconds(deadline)):
            if handler := self._handlers.get(fd):
                handler(events)
        if self._alarms:
            self._ring()

    def until(self, condition: Callable[[], bool], deadline: float = NEVER) -> bool:
        """Turn until `condition` holds. False when `deadline` passes first."""
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.turn(deadline)
        return True

    def close(self) -> None:
        """Let another loop take over. Signals that arrive in between are lost, unless they are blocked."""
        os.close(signal.set_wakeup_fd(-1))
        os.close(self._wake)

    def _ring(self) -> None:
        now = time.monotonic()
        due = [alarm for alarm in self._alarms if alarm[0] <= now]
        self._alarms = [alarm for alarm in self._alarms if alarm[0] > now]
        for _, ring in sorted(due, key=lambda alarm: alarm[0]):
            ring()

    def _take_signals(self, _events: int) -> None:
        for number in os.read(self._wake, 4096):
            self.on_signal(number)


def _milliseconds(deadline: float) -> int | None:
    if deadline == NEVER:
        return None
    return min(_LONGEST_MS, max(0, -int((time.monotonic() - deadline) * 1000 // 1)))  # rounded up


def _nothing(_number: int) -> None:
    pass
