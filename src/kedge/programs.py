"""Programs that kedge starts and does not trust to end: at their deadline they are ended with all that they started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kedge import processes

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_GUARD = Path(__file__).with_name("program_guard.py")
MOST = 16 << 20  # bytes of an answer
LAST_WORDS = 64 << 10  # bytes
_KILL_SEC = 2.0  # enough for all that is not hung in the kernel


class ProgramEnd(NamedTuple):
    """How a program ended: `code` is negative for a signal, as in subprocess."""

    code: int
    out: bytes
    err: bytes


class SaidTooMuch(Exception):
    """Its output was larger than what is of use; it was ended."""


class TookTooLong(Exception):
    """It did not end in time. `left` are the processes that could not even be killed; the others are gone."""

    def __init__(self, left: Sequence[processes.Process]) -> None:
        self.left = left
        super().__init__(*left)


def run(
    argv: Sequence[str],
    deadline_sec: float,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    most: int = MOST,
) -> ProgramEnd:
    """Run a program of PATH to its end and to the end of its output; `given` is its stdin.

    OSError if it cannot be executed; TookTooLong after `deadline_sec`; SaidTooMuch for more than `most` bytes on stdout
    (of stderr, the last LAST_WORDS are kept). Whatever else interrupts the call, Ctrl-C too, the program ends with all
    that it has started, in whatever session or group that is.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with open(reader, "rb") as answer:
        try:
            guard = _start(argv, writer, environment)
        finally:
            os.close(writer)
        with guard:
            out, err = _communicate(guard, given, deadline_sec, most)
            said = answer.read().split()
    if said[:1] == [b"error"]:
        code = int(said[1])
        raise OSError(code, os.strerror(code), argv[0])
    # Without an answer somebody has killed the guard, and that is all that is known.
    return ProgramEnd(os.waitstatus_to_exitcode(int(said[1])) if said else guard.returncode, out, err)


def _start(argv: Sequence[str], answer: int, environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(answer), *argv],
        stdin=pipe, stdout=pipe, stderr=pipe, env=environment, pass_fds=(answer,),
        start_new_session=True,  # the terminal's Ctrl-C is for kedge, which then ends the program
    )  # fmt: skip


def _communicate(guard: subprocess.Popen[bytes], given: bytes, deadline_sec: float, most: int) -> tuple[bytes, bytes]:
    try:
        return _talk(guard, given, time.monotonic() + deadline_sec, most)
    except BaseException as error:
        left = _end(guard.pid)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TookTooLong(left) from error
        raise


def _talk(guard: subprocess.Popen[bytes], given: bytes, deadline: float, most: int) -> tuple[bytes, bytes]:
    """Like Popen.communicate, within bounds. TimeoutExpired, SaidTooMuch."""
    assert guard.stdin
    assert guard.stdout
    assert guard.stderr
    out, err, left = bytearray(), bytearray(), memoryview(given)
    with selectors.DefaultSelector() as selector:
        for stream, event in (guard.stdin, _WRITE), (guard.stdout, _READ), (guard.stderr, _READ):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, event)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(guard.args, 0.0)
            for key, _ in ready:
                if key.fileobj is guard.stdin:
                    left = _written(key.fd, left)
                    done = not left
                else:
                    done = not _taken(key.fd, out if key.fileobj is guard.stdout else err)
                if done:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
            del err[:-LAST_WORDS]
            if len(out) > most:
                raise SaidTooMuch
    guard.wait(max(0.0, deadline - time.monotonic()))
    return bytes(out), bytes(err)


def _written(fd: int, data: memoryview) -> memoryview:
    """What is left of the data; nothing if nobody reads them."""
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]


def _taken(fd: int, into: bytearray) -> bool:
    """Whether there was something."""
    data = os.read(fd, 1 << 16)
    into += data
    return bool(data)


def _end(guard: int) -> Sequence[processes.Process]:
    """Kill the guard and all that is below it; where there is no /proc (macOS), its process group. Returns what is
    left."""
    if sys.platform.startswith("linux"):
        return processes.kill_tree(guard, _KILL_SEC)
    with suppress(ProcessLookupError):
        os.killpg(guard, signal.SIGKILL)
    return ()
