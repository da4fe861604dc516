"""Running programs with a deadline: when it passes, the program and all processes it started are killed."""

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
MAX_OUTPUT = 16 << 20  # bytes of stdout
STDERR_TAIL = 64 << 10  # bytes of stderr that are kept
_KILL_SEC = 2.0  # enough for any process that does not hang in the kernel


class ProgramEnd(NamedTuple):
    """How a program ended: `code` is negative for a signal, as in subprocess."""

    code: int
    out: bytes
    err: bytes


class OutputTooLarge(Exception):
    """The program's output exceeded the limit; it was killed."""


class TookTooLong(Exception):
    """The program did not end in time. `left` are the processes that survived the kill; all others are gone."""

    def __init__(self, left: Sequence[processes.Process]) -> None:
        self.left = left
        super().__init__(*left)


def run(
    argv: Sequence[str],
    deadline_sec: float,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    max_output: int = MAX_OUTPUT,
) -> ProgramEnd:
    """Run a program from PATH until it has ended and its output is complete. `stdin` is its input.

    OSError if it cannot be executed; TookTooLong after `deadline_sec`; OutputTooLarge for more than `max_output` bytes
    on stdout (of stderr, the last STDERR_TAIL bytes are kept). If anything else interrupts the call, such as Ctrl-C,
    the program and all processes it started are killed, whatever their session or group.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with open(reader, "rb") as result_pipe:
        try:
            guard = _start(argv, writer, environment)
        finally:
            os.close(writer)
        with guard:
            out, err = _communicate(guard, stdin, deadline_sec, max_output)
            result = result_pipe.read().split()
    if result[:1] == [b"error"]:
        code = int(result[1])
        raise OSError(code, os.strerror(code), argv[0])
    # Without a result the guard itself was killed, and only its own status is known.
    return ProgramEnd(os.waitstatus_to_exitcode(int(result[1])) if result else guard.returncode, out, err)


def _start(argv: Sequence[str], result: int, environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(result), *argv],
        stdin=pipe, stdout=pipe, stderr=pipe, env=environment, pass_fds=(result,),
        start_new_session=True,  # Ctrl-C in the terminal reaches kedge alone, which then kills the program
    )  # fmt: skip


def _communicate(
    guard: subprocess.Popen[bytes], stdin: bytes, deadline_sec: float, max_output: int
) -> tuple[bytes, bytes]:
    try:
        return _exchange(guard, stdin, time.monotonic() + deadline_sec, max_output)
    except BaseException as error:
        left = _end(guard.pid)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TookTooLong(left) from error
        raise


def _exchange(guard: subprocess.Popen[bytes], stdin: bytes, deadline: float, max_output: int) -> tuple[bytes, bytes]:
    """Like Popen.communicate, but with limits. TimeoutExpired, OutputTooLarge."""
    assert guard.stdin
    assert guard.stdout
    assert guard.stderr
    out, err, left = bytearray(), bytearray(), memoryview(stdin)
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
                    left = _write_some(key.fd, left)
                    done = not left
                else:
                    done = not _read_some(key.fd, out if key.fileobj is guard.stdout else err)
                if done:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
            del err[:-STDERR_TAIL]
            if len(out) > max_output:
                raise OutputTooLarge
    guard.wait(max(0.0, deadline - time.monotonic()))
    return bytes(out), bytes(err)


def _write_some(fd: int, data: memoryview) -> memoryview:
    """Write what the pipe takes now. Return the rest, which is empty if nobody reads the pipe any more."""
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]


def _read_some(fd: int, into: bytearray) -> bool:
    """Append what can be read now. False at the end of the stream."""
    data = os.read(fd, 1 << 16)
    into += data
    return bool(data)


def _end(guard: int) -> Sequence[processes.Process]:
    """Kill the guard and all its descendants (without /proc, as on macOS: its process group). Return those that are
    left."""
    if sys.platform.startswith("linux"):
        return processes.kill_tree(guard, _KILL_SEC)
    with suppress(ProcessLookupError):
        os.killpg(guard, signal.SIGKILL)
    return ()
