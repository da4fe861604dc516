"""Programs that kedge starts and does not trust to end: at their deadline they are ended with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kedge import processes

_GUARD = Path(__file__).with_name("guard.py")
_KILL_SEC = 2.0  # enough for all that is not hung in the kernel


class Done(NamedTuple):
    """How a program ended: `code` is negative for a signal, as in subprocess."""

    code: int
    out: bytes
    err: bytes


class TookTooLong(Exception):
    """It did not end in time. `left` are the processes that could not even be killed; the others are gone."""

    def __init__(self, left: Sequence[processes.Process]) -> None:
        self.left = left
        super().__init__(*left)


def run(
    argv: Sequence[str], deadline_sec: float, given: bytes = b"", environment: Mapping[str, str] | None = None
) -> Done:
    """Run a program of PATH to its end and to the end of its output; `given` is its stdin.

    OSError if it cannot be executed; TookTooLong after `deadline_sec`. Whatever else interrupts the call, Ctrl-C too,
    the program ends with all that it has started, in whatever session or group that is.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with open(reader, "rb") as answer:
        try:
            guard = _start(argv, writer, environment)
        finally:
            os.close(writer)
        with guard:
            out, err = _communicate(guard, given, deadline_sec)
            said = answer.read().split()
    if said[:1] == [b"error"]:
        code = int(said[1])
        raise OSError(code, os.strerror(code), argv[0])
    # Without an answer somebody has killed the guard, and that is all that is known.
    return Done(os.waitstatus_to_exitcode(int(said[1])) if said else guard.returncode, out, err)


def _start(argv: Sequence[str], answer: int, environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(answer), *argv],
        stdin=pipe, stdout=pipe, stderr=pipe, env=environment, pass_fds=(answer,),
        start_new_session=True,  # the terminal's Ctrl-C is for kedge, which then ends the program
    )  # fmt: skip


def _communicate(guard: subprocess.Popen[bytes], given: bytes, deadline_sec: float) -> tuple[bytes, bytes]:
    try:
        return guard.communicate(given, deadline_sec)
    except BaseException as error:
        left = _end(guard.pid)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TookTooLong(left) from error
        raise


def _end(guard: int) -> Sequence[processes.Process]:
    """Kill the guard and all that is below it; where there is no /proc (macOS), its process group. Returns what is
    left."""
    if sys.platform.startswith("linux"):
        return processes.kill_tree(guard, _KILL_SEC)
    with suppress(ProcessLookupError):
        os.killpg(guard, signal.SIGKILL)
    return ()
