"""Runs a program beside a task, as if the task had started it: in its working directory, with its environment.

    python -I -S .../kedge/runtime --join SUPERVISOR_PID [PROGRAM [ARGUMENT...]]

Without a program it is the task's shell. The variable TERM is that of the caller's terminal, if there is one.
"""

from __future__ import annotations

import errno
import os

from kedge import contract
from kedge.light import contextlib
from kedge.light.types import Sequence
from kedge.runtime.setup import kept_environment

_TERMINAL = "TERM"


def main(argv: Sequence[str]) -> int:
    """Become the program. Returns only if that fails: the exit code that a shell has for the failure."""
    try:
        task = kept_environment.read(int(argv[1]))
    except PermissionError:
        return _failed("the task belongs to another user", contract.SHELL_CANNOT_EXECUTE)
    if task is None:
        return _failed("the task has not started, or has just ended", contract.SHELL_CANNOT_EXECUTE)
    environment, program = task["environment"], [*argv[2:]] or [task["shell"]]
    if os.isatty(0) and _TERMINAL in os.environ:
        environment[_TERMINAL] = os.environ[_TERMINAL]
    with contextlib.suppress(OSError):  # it may have been removed
        os.chdir(task["directory"])
    try:
        os.execvpe(program[0], program, environment)  # noqa: S606  (the user names it)
    except OSError as error:
        code = contract.SHELL_NOT_FOUND if error.errno == errno.ENOENT else contract.SHELL_CANNOT_EXECUTE
        return _failed(f"{program[0]}: {error.strerror}", code)


def _failed(why: str, code: int) -> int:
    os.write(2, f"kedge exec: {why}\n".encode(errors="surrogateescape"))
    return code
