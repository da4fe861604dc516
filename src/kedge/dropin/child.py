"""Runs a step that is a program of its own. Its output goes to the log as it comes."""

from __future__ import annotations

import os
import select

from kedge.dropin.init_log import InitLog
from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.light.types import Mapping, Sequence

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_CHUNK = 65536
_NOT_FOUND = 127  # as shells end
_NOT_EXECUTABLE = 126
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def run_program(words: Sequence[str], environment: Mapping[str, str], log: InitLog) -> int:
    """Start a program, wait for its end, and return its exit code as a shell shows it. Processes that it leaves behind
    go on, without an output. If the handler of one of STOPPING raises, the program's process group gets SIGTERM, and
    its end is awaited."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        return _run(words, environment, reader, writer, log)
    except FileNotFoundError:
        log.error(f"{words[0]} cannot be started: it does not exist, or the interpreter in its first line does not")
        return _NOT_FOUND
    except OSError as error:
        log.error(f"{words[0]} cannot be started: {error.strerror}")
        return _NOT_EXECUTABLE
    finally:
        os.close(reader)


def _run(words: Sequence[str], environment: Mapping[str, str], reader: int, writer: int, log: InitLog) -> int:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # until it is known what a signal must end
    try:
        pid = _start(words, environment, writer)
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    finally:
        os.close(writer)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _follow(pid, reader, log)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
        _follow(pid, reader, log)
        os.waitpid(pid, 0)
        raise
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _start(words: Sequence[str], environment: Mapping[str, str], output: int) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    return os.posix_spawn(
        _found(words[0], environment), list(words), environment, file_actions=actions, setpgroup=0, setsigmask=(),
        setsigdef=_IGNORED_BY_PYTHON,
    )  # fmt: skip


def _follow(pid: int, reader: int, log: InitLog) -> None:
    """Copy output to the log until the program has ended and all that it wrote is there."""
    ended = os.pidfd_open(pid)
    waiting = select.poll()
    for fd in (reader, ended):
        waiting.register(fd, select.POLLIN)
    os.set_blocking(reader, False)
    try:
        while all(fd != ended for fd, _ in waiting.poll()):
            if not _drain(reader, log):
                waiting.unregister(reader)
        _drain(reader, log)
    finally:
        os.close(ended)


def _drain(reader: int, log: InitLog) -> bool:
    """Copy what can be read now. Returns whether more may come."""
    try:
        while data := os.read(reader, _CHUNK):
            log.write(data)
    except BlockingIOError:
        return True
    return False


def _found(program: str, environment: Mapping[str, str]) -> str:
    """The path of a program: from PATH if its name has no slash, as in a shell."""
    if "/" in program:
        return program
    paths = (f"{folder or '.'}/{program}" for folder in environment.get("PATH", os.defpath).split(":"))
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), program)
