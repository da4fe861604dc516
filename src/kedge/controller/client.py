"""The submitter's side of a run's controller: starts the process, sends its orders, and waits for its end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kedge.errors import EXIT_BUG, EXIT_FAILED, KedgeError
from kedge.resolve.model import Secrets
from kedge.runs.atomic_files import disk_errors
from kedge.runs.controller_lock import ControllerLock
from kedge.runs.folder import Run, jobs_dir

_HERE = os.path.dirname(os.path.abspath(__file__))
# The signals that request a stop; see engines.controller.stop_requests.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_NOTICE = signal.SIGUSR2  # that the job will be stopped soon
_LONGEST_ID = 100  # bytes of a run's id
_EXIT_SEC = 5.0  # how long a controller that has closed its channel may take to exit


class End(NamedTuple):
    """How a controller ended: the exit code for `kedge run`, and the error, if any."""

    exit_code: int
    error: str = ""


class LoadingController:
    """The process of a controller, in its own session, so that it continues when this process ends. It loads its
    modules and then waits for a run. Give it to a Controller, or `end` it; it also ends when this process does.

    It inherits this process's environment and working directory, and writes its errors to `log`, which it then owns.
    Its command line has room for the path of a run folder of `room` bytes.
    """

    def __init__(self, engine: str, log: int, room: int) -> None:
        self.log = log
        try:
            self.channel, theirs = socket.socketpair()
            try:
                with theirs:
                    # This process becomes the keeper of the controller.
                    self.process = self._spawn(theirs, room)
            except BaseException:
                self.channel.close()
                raise
        except BaseException:
            os.close(log)
            raise
        _send(self.channel, {"path": [os.path.abspath(entry) for entry in sys.path], "engine": engine})

    def _spawn(self, channel: socket.socket, room: int) -> subprocess.Popen[bytes]:
        with _signals_blocked():
            return subprocess.Popen(
                [sys.executable, "-I", "-S", _HERE, str(channel.fileno()), " " * room],
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
                pass_fds=(channel.fileno(),),
            )  # fmt: skip

    def has_log(self, path: Path) -> bool:
        """Give the log, which has no name yet, this one. False if that is not possible, or the process has ended."""
        if self.process.poll() is not None:
            return False
        with suppress(OSError):
            descriptors = os.open("/proc/self/fd", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.link(str(self.log), path, src_dir_fd=descriptors)  # without this argument, it would link the link
                return True
            finally:
                os.close(descriptors)
        return False

    def close(self) -> None:
        """Close what only this process needs, if that has not been done; the other process continues."""
        if self.log >= 0:
            os.close(self.log)
            self.log = -1

    def end(self) -> None:
        """Kill it."""
        _kill(self.process)
        self.channel.close()
        self.close()


@contextmanager
def loading(engine: str) -> Iterator[LoadingController | None]:
    """A context in which a controller loads its modules, while this process finds out what the run will be. At the end
    it is ended if no Controller has taken it.

    None if it cannot be started before there is a run folder for its log; a Controller then starts one."""
    found = None
    with suppress(KedgeError, OSError, AttributeError):  # AttributeError: not on Linux
        jobs = jobs_dir(os.environ)
        log = os.open(jobs, os.O_TMPFILE | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        found = LoadingController(engine, log, len(os.fsencode(jobs)) + _LONGEST_ID)
    try:
        yield found
    finally:
        if found and found.log >= 0:
            found.end()


class Controller:
    """The process that will run the job of `run`: `loading`, or a new one. It takes over the run's lock and waits for
    its orders; if this process ends without sending any, it removes the run. Its command line names only the run.
    """

    outlives_terminal = False

    def __init__(self, run: Run, lock: ControllerLock, engine: str, loading: LoadingController | None = None) -> None:
        self.log = run.path / "controller.log"
        self._run = run.id
        with disk_errors(self.log):
            started = self._started(run, engine, loading)
            try:
                lock.sign(started.process.pid)
                _send(started.channel, {"run": str(run.path)}, [lock.fileno()])
            except BaseException:
                started.end()
                raise
        started.close()
        lock.close()  # the new process holds it, and signs it itself once it has loaded its modules
        self._process, self._channel = started.process, started.channel
        self._answers = self._channel.makefile("rb")

    def _started(self, run: Run, engine: str, loading: LoadingController | None) -> LoadingController:
        if loading and loading.has_log(self.log):
            return loading
        if loading:
            loading.end()
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return LoadingController(engine, log, len(os.fsencode(run.path)))

    def order(self, engine: str, options: Mapping[str, Any], plan: Mapping[str, Any], secrets: Secrets) -> None:
        """Order it to run the plan (from `plan.lossless`) on the engine of this name. From now on it does so even if
        this process ends."""
        values = {"document": secrets.document, "texts": dict(secrets.texts)}
        _send(self._channel, {"engine": engine, "options": dict(options), "plan": plan, "secrets": values})

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
        _kill(self._process)
        self.close()

    def close(self) -> None:
        """Close the channel; the controller continues."""
        self._answers.close()
        self._channel.close()

    def _answer(self) -> dict[str, Any] | None:
        try:
            line = self._answers.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None


def _send(channel: socket.socket, message: Mapping[str, Any], passed: Sequence[int] = ()) -> None:
    """Send a message, and descriptors at its beginning."""
    data = (json.dumps(message) + "\n").encode()
    with suppress(BrokenPipeError, ConnectionResetError):  # it has ended, which the missing answer will show
        if rest := data[socket.send_fds(channel, [data], passed) :]:
            channel.sendall(rest)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a controller that runs nothing, and its keeper, which is `process`."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, _NOTICE))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
