"""Requests to stop the job, which arrive as signals and wake the controller's loop."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any, NamedTuple

from kedge.runs.controller_lock import RELEASE

KILL = signal.SIGUSR1  # counts twice, because two equal signals may be merged
NOTICE = signal.SIGUSR2  # the job will be stopped soon, as schedulers announce with a signal of the job's choice
_SIGNALS = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "a stop request",
    KILL: "a stop request",
    signal.SIGHUP: "the closed terminal",
}
_LIKE_SIGNALS = {
    "stop": signal.SIGTERM,
    "kill": KILL,
    "interrupt": signal.SIGINT,
    "hangup": signal.SIGHUP,
    "release": RELEASE,
    "notice": NOTICE,
}


class StopFacts(NamedTuple):
    """The requests as the event log has them. `kill`: there was more than one."""

    by: str
    kill: bool
    interrupted: bool = False


class Stops:
    """A context in which SIGINT, SIGTERM, SIGHUP and KILL are counted instead of ending the process; SIGHUP stays
    ignored if it was. Signals that were blocked before are delivered now, and blocked again afterwards.

    `count` is the number of requests, `by` the source of the first; `notices` counts NOTICE,
    `releases` RELEASE. `fileno` becomes readable
    at each of them and at SIGCHLD, until `drain` is called. Use it only in the main thread.
    """

    def __init__(self) -> None:
        self.count = 0
        self.notices = self.releases = 0
        self.by = ""
        self.interrupted = False

    def __enter__(self) -> Stops:
        self._read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._write = write
        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()  # as by nohup
        self._previous: dict[Any, Any] = {
            n: signal.signal(n, self._on_signal) for n in {*_SIGNALS, NOTICE, RELEASE} - ignored
        }
        self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._previous_fd = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_SIGNALS, NOTICE, RELEASE})
        return self

    def __exit__(self, *error: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        signal.set_wakeup_fd(self._previous_fd)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def request(self, by: str) -> None:
        """Request a stop from within the controller."""
        self.count += 1
        self.by = self.by or by
        os.write(self._write, b"\0")

    def take(self, kind: str, by: str = "") -> None:
        """Take what a user's command asks for over the link: `stop`, `kill` (counts twice), `interrupt`, `hangup`,
        `release` or `notice`. `by` is the user, if it is not the one whose job this is."""
        if kind in _LIKE_SIGNALS:
            first = not self.by
            self._on_signal(_LIKE_SIGNALS[kind], None)
            if first and self.by and by:
                self.by = f"{self.by} of {by}"
            os.write(self._write, b"\0")

    def facts(self) -> dict[str, Any]:
        """The requests so far for the event log."""
        return StopFacts(self.by, self.count > 1, self.interrupted)._asdict()

    def remember(self, facts: StopFacts) -> int:
        """Add the requests that an earlier controller has recorded, and return their number."""
        count = 2 if facts.kill else 1
        self.by, self.interrupted = facts.by, self.interrupted or facts.interrupted
        self.count += count
        return count

    def fileno(self) -> int:
        return self._read

    def drain(self) -> None:
        try:
            while os.read(self._read, 4096):
                pass
        except BlockingIOError:
            return

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == NOTICE:
            self.notices += 1
            return
        if number == RELEASE:
            self.releases += 1
            return
        self.count += 2 if number == KILL else 1
        self.by = self.by or _SIGNALS[signal.Signals(number)]
        self.interrupted = self.interrupted or number == signal.SIGINT
