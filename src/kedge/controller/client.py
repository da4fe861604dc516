"""The submitter's side of a run's controller: starts the process, sends its orders, and waits for its end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kedge.errors import EXIT_BUG, EXIT_FAILED
from kedge.resolve.model import Secrets
from kedge.runs.atomic_files import disk_errors
from kedge.runs.controller_lock import ControllerLock
from kedge.runs.folder import Run

_HERE = os.path.dirname(os.path.abspath(__file__))
# The signals that request a stop; see engines.controller.stop_requests.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_EXIT_SEC = 5.0  # how long a controller that has closed its channel may take to exit


class End(NamedTuple):
    """How a controller ended: the exit code for `kedge run`, and the error, if any."""

    exit_code: int
    error: str = ""


class Controller:
    """The process that will run the job of `run`, in its own session, so that it continues when this process ends. It
    takes over the run's lock and waits for its orders; if this process ends without sending any, it removes the run.

    It inherits this process's environment and working directory; its command line names only the run.
    """

    def __init__(self, run: Run, lock: ControllerLock, engine: str) -> None:
        self.log = run.path / "controller.log"
        self._run = run.id
        self._channel, theirs = socket.socketpair()
        try:
            with theirs, disk_errors(self.log):
                # This process becomes the keeper of the controller, which signs the lock itself once it has read the
                # settings sent below.
                self._process = self._spawn(run, lock, theirs)
                lock.sign(self._process.pid)
        except BaseException:
            self._channel.close()
            raise
        lock.close()  # the new process holds it
        self._answers = self._channel.makefile("rb")
        self._send({"path": [os.path.abspath(entry) for entry in sys.path], "engine": engine})

    def _spawn(self, run: Run, lock: ControllerLock, channel: socket.socket) -> subprocess.Popen[bytes]:
        passed = (lock.fileno(), channel.fileno())
        numbers = [text for name, fd in zip(("--lock", "--channel"), passed, strict=True) for text in (name, str(fd))]
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            with _signals_blocked():
                return subprocess.Popen(
                    [sys.executable, "-I", "-S", _HERE, str(run.path), *numbers],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=passed,
                )  # fmt: skip
        finally:
            os.close(log)

    def order(self, engine: str, options: Mapping[str, Any], plan: Mapping[str, Any], secrets: Secrets) -> None:
        """Order it to run the plan (from `plan.lossless`) on the engine of this name. From now on it does so even if
        this process ends."""
        values = {"document": secrets.document, "texts": dict(secrets.texts)}
        self._send({"engine": engine, "options": dict(options), "plan": plan, "secrets": values})

    def started(self) -> End | None:
        """Wait until the job has started, and return None, or how the controller ended before that."""
        answer = self._answer()
        if answer is None:
            return self._killed_early() if self._was_killed() else self._never_started()
        return End(**answer) if "exit_code" in answer else None

    def wait(self) -> End | None:
        """Wait until it has ended; None if it was killed before it could send how."""
        first = self._answer()
        last = self._answer() if first and "started" in first else first
        if first and not last:
            return None  # its keeper stays with the remaining processes
        killed = self._was_killed()
        if last:
            return End(**last)
        return None if first or killed else self._never_started()

    def _was_killed(self) -> bool:
        """Whether a signal ended it. It has closed its channel, so it exits at once, unless a debugger still holds
        it, which counts as killed."""
        try:
            return _exit_code(self._process, _EXIT_SEC) < 0
        except subprocess.TimeoutExpired:
            return True

    def _killed_early(self) -> End:
        return End(EXIT_FAILED, f"the job's controller was killed; end the rest of the run with kedge stop {self._run}")

    def _never_started(self) -> End:
        return End(EXIT_BUG, f"the job's controller could not start; see {self.log}")

    def signal(self, number: int) -> None:
        """Forward a request to stop. A suspended controller is resumed for it."""
        for each in (number, signal.SIGCONT):
            self._process.send_signal(each)

    def abandon(self) -> None:
        """End it before it has received any orders."""
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        """Close the channel; the controller continues."""
        self._answers.close()
        self._channel.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended, which the missing answer will show
            self._channel.sendall((json.dumps(message) + "\n").encode())

    def _answer(self) -> dict[str, Any] | None:
        try:
            line = self._answers.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None


def _exit_code(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Wait for the end of a child. subprocess.TimeoutExpired after so long. Popen.wait with a time limit sleeps for up
    to 50 ms between looks at it; the kernel reports the end at once."""
    if process.poll() is None:
        with suppress(OSError, AttributeError):  # not on Linux, or no descriptor is left
            fd = os.pidfd_open(process.pid)
            try:
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                poll.poll(seconds * 1000)
            finally:
                os.close(fd)
            seconds = 0.0
    return process.wait(seconds)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A context that blocks the stop signals. A process started in it inherits the blocked signals, so that none is
    lost or ends it before it can handle them. This process receives them afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
