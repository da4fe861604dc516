"""The controller of a run as its submitter sees it: a process that is started, told what to do, and heard of."""

from __future__ import annotations

import json
import os
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
# What asks for a stop; see engines.controller.stops.
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_GOING_SEC = 5.0


class End(NamedTuple):
    """How a controller ended: with which exit code of `kedge run`, and with which error, if it was one."""

    exit_code: int
    error: str = ""


class Controller:
    """The process that will run the job of `run`, in a session of its own, which goes on when this process ends. It
    takes over the run's lock and waits for its orders, and removes the run when this process ends without giving any.

    It inherits this process's environment and working directory; its command line names the run and nothing else.
    """

    def __init__(self, run: Run, lock: ControllerLock, engine: str) -> None:
        self.log = run.path / "controller.log"
        self._run = run.id
        self._channel, theirs = socket.socketpair()
        try:
            with theirs, disk_errors(self.log):
                # It becomes the keeper of the controller, which signs for itself when it has read what is sent below.
                self._process = self._spawn(run, lock, theirs)
                lock.sign(self._process.pid)
        except BaseException:
            self._channel.close()
            raise
        lock.close()  # the process has it
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
        """Let it run the job: the plan (of `plan.lossless`) on the engine of this name. From now on it does so whatever
        becomes of this process."""
        values = {"document": secrets.document, "texts": dict(secrets.texts)}
        self._send({"engine": engine, "options": dict(options), "plan": plan, "secrets": values})

    def started(self) -> End | None:
        """Wait until it has begun, which is None, or how it has ended before."""
        answer = self._answer()
        if answer is None:
            return self._killed_early() if self._was_killed() else self._never_started()
        return End(**answer) if "exit_code" in answer else None

    def wait(self) -> End | None:
        """Wait until it has ended; None when it was killed before it could say how."""
        first = self._answer()
        last = self._answer() if first and "started" in first else first
        if first and not last:
            return None  # and its keeper stays with what is left
        killed = self._was_killed()
        if last:
            return End(**last)
        return None if first or killed else self._never_started()

    def _was_killed(self) -> bool:
        """Whether it was; waits until it is gone, which it is at once when it says nothing more, but not when a
        debugger still holds what is left of it."""
        try:
            return self._process.wait(_GOING_SEC) < 0
        except subprocess.TimeoutExpired:
            return True

    def _killed_early(self) -> End:
        return End(EXIT_FAILED, f"the job's controller was killed; kedge stop {self._run} ends what is left of it")

    def _never_started(self) -> End:
        return End(EXIT_BUG, f"the job's controller could not start; see {self.log}")

    def signal(self, number: int) -> None:
        """Pass on a request to stop. A controller that is suspended goes on for that."""
        for each in (number, signal.SIGCONT):
            self._process.send_signal(each)

    def abandon(self) -> None:
        """End it before it has been given any orders."""
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        """Hear nothing more of it."""
        self._answers.close()
        self._channel.close()

    def _send(self, fact: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended, which is noticed when an answer is due
            self._channel.sendall((json.dumps(fact) + "\n").encode())

    def _answer(self) -> dict[str, Any] | None:
        try:
            line = self._answers.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """What is started meanwhile has the signals blocked that ask for a stop, so that none is lost, and none ends it
    before it can take them. This process gets them afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
