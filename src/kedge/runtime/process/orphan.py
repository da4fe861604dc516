"""Forks a process that does not depend on this one: the next subreaper above is its parent."""

from __future__ import annotations

import os
import sys

from kedge.light.types import Callable, NoReturn


def fork_orphan(run: Callable[[], int]) -> int:
    """Call `run` in a new process, which exits with what it returns, or 1 after an exception, and return its pid; 0 if
    the process in between was killed. OSError: no process can be forked."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        between = os.fork()
        if between == 0:
            _fork_and_end(run, reader, writer)
        os.waitpid(between, 0)
        os.close(writer)
        writer = -1
        answer = int(os.read(reader, 64) or b"0")
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))
    return answer


def _fork_and_end(run: Callable[[], int], reader: int, writer: int) -> NoReturn:
    """In the process between: fork, report the pid, and end, whatever happens."""
    try:
        pid = _pid_or_error()
        if pid == 0:
            os.close(reader)
            os.close(writer)
            _end_with(run)
        os.write(writer, b"%d" % pid)
    finally:
        os._exit(0)


def _pid_or_error() -> int:
    try:
        return os.fork()
    except OSError as error:
        return -(error.errno or 1)


def _end_with(run: Callable[[], int]) -> NoReturn:
    """In the new process: it must not go on where the one that has forked it stands."""
    code = 1  # as an interpreter exits after an exception
    try:
        code = run()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(code)
