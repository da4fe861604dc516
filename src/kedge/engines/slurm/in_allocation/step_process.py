"""One srun, which starts the agents of a role and lives as long as they do.

It is started in two steps, so that a controller that is killed meanwhile never leaves an srun which the next one does
not know: a process waits for a line from a pipe (the gate), is recorded, and becomes srun when the line comes. If its
controller is killed before that, the pipe closes, and the process ends silently.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kedge import processes
from kedge.contract import SHELVED
from kedge.engines.slurm.in_allocation.step_log import StepFacts
from kedge.engines.slurm.in_allocation.step_record import StepProcess
from kedge.errors import CannotRun
from kedge.own_files import open_own

_LOG = os.O_WRONLY | os.O_APPEND
_GATE = 3  # the descriptor at which the process waits
_BEHIND_GATE = ("/bin/sh", "-c", f'read -r _ <&{_GATE} && exec "$@" {_GATE}<&-', "sh")
_PIECE = 1 << 16  # bytes


class SlurmStep:
    """`fd` is a descriptor of the process (pidfd), -1 once it has ended. `code` is its exit code (-n for signal n) if
    this controller is its parent."""

    def __init__(self, record: StepProcess, log: Path, *, own: bool) -> None:
        self.attempt, self.role, self.facts = record.attempt, record.role, StepFacts()
        self.code: int | None = None
        self.record, self._own, self._log, self._read, self._rest = record, own, log, 0, b""
        self.fd = -1
        if own or record.is_here:
            with suppress(ProcessLookupError):
                self.fd = os.pidfd_open(record.process.pid)
        if not own and self.fd >= 0 and not record.is_here:  # the number belongs to another process by now
            self._close()

    @property
    def runs(self) -> bool:
        return self.fd >= 0

    @property
    def never_began(self) -> bool:
        """Whether it ended before it became srun, which always prints something: its controller was killed."""
        return not self.runs and not self._own and not self._read

    @property
    def started(self) -> float:
        """When its srun was started, by time.time(); infinite if that is not known."""
        if self.record.boot != processes.boot_id() or not self.record.process.start_time:
            return math.inf
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - self.record.process.start_time / os.sysconf("SC_CLK_TCK")
        return time.time() - age

    def look(self) -> None:
        """Read what has come in its log since the last call, at most 64 KiB at once."""
        with suppress(FileNotFoundError), open(self._log, "rb", buffering=0) as file:
            file.seek(self._read)
            while data := file.read(_PIECE):
                self._take(data)

    def _take(self, data: bytes) -> None:
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_PIECE:]
        for line in lines:
            self.facts.take(line.decode(errors="replace"))

    def ended(self) -> None:
        """It has ended: learn how."""
        if self._own:
            _, status = os.waitpid(self.record.process.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)
        self._close()
        self.look()

    def signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.fd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.fd, number)

    def _close(self) -> None:
        os.close(self.fd)
        self.fd = -1


def log_path(folder: Path, attempt: int, role: str) -> Path:
    """The log of a step, in which render.step has its tasks write, too."""
    return folder / f"step-{attempt}-{role}.log"


def start(
    argv: tuple[str, ...], stdin: bytes, log: Path, attempt: int, role: str, record: Callable[[StepProcess], None]
) -> SlurmStep:
    """Start an srun with this standard input, once `record` has returned. CannotRun; what `record` raises."""
    _check(argv[0])
    gate, opener = os.pipe2(os.O_CLOEXEC)
    try:
        pid = _spawn(argv, stdin, log, gate)
        process = processes.identify(pid) or processes.Process(pid, 0)
        found = StepProcess(attempt, role, process, processes.boot_id())
        try:
            record(found)
        except BaseException:
            os.close(opener)
            opener = -1
            os.waitpid(pid, 0)  # it finds the gate closed
            raise
        with suppress(BrokenPipeError):  # somebody has killed it
            os.write(opener, b"\n")
    finally:
        os.close(gate)
        if opener >= 0:
            os.close(opener)
    return SlurmStep(found, log, own=True)


def _check(program: str) -> None:
    """CannotRun: there is no such program."""
    folders = [""] if "/" in program else os.environ.get("PATH", os.defpath).split(":")
    if not any(os.access(os.path.join(folder, program), os.X_OK) for folder in folders):
        raise CannotRun(f"{program} cannot be started on {os.uname().nodename}: {os.strerror(errno.ENOENT)}")


def _spawn(argv: tuple[str, ...], stdin: bytes, log: Path, gate: int) -> int:
    """Start what becomes srun at the gate; its pid. CannotRun."""
    told = os.memfd_create("kedge-orders", os.MFD_CLOEXEC)  # the tokens in it are in no file
    output = open_own(log, _LOG)
    try:
        os.write(told, stdin)
        os.lseek(told, 0, os.SEEK_SET)
        placed = ((told, 0), (output, 1), (output, 2), (gate, _GATE))
        # In a new session: Slurm signals the group of the batch script when it ends the job, and srun would leave at
        # once, without the last words of its tasks.
        return os.posix_spawn(
            _BEHIND_GATE[0], (*_BEHIND_GATE, *argv), environment(os.environ),
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in placed], setsid=True, setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2),
        )  # fmt: skip
    except OSError as error:
        raise CannotRun(f"{argv[0]} cannot be started on {os.uname().nodename}: {error.strerror}") from error
    finally:
        os.close(told)
        os.close(output)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment as it was before the start of this bundle's interpreter, see contract.LOADER_VARIABLES."""
    shelved = {name.removeprefix(SHELVED): value for name, value in variables.items() if name.startswith(SHELVED)}
    return {name: value for name, value in variables.items() if not name.startswith(SHELVED)} | shelved
