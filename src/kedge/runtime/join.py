"""Runs a program beside a task, as if the task had started it: in its working directory, with its environment.

    python -I -S .../kedge/runtime --join SUPERVISOR_PID [--messages] [PROGRAM [ARGUMENT...]]

Without a program it is the task's shell. With `--messages` its input and signals come as messages (join_input). The
variable TERM is that of the caller's terminal, if there is one.
"""

from __future__ import annotations

import errno
import os

from kedge import contract
from kedge.light import contextlib
from kedge.light.types import Sequence
from kedge.runtime.setup import kept_environment

_TERMINAL = "TERM"
_MESSAGES = "--messages"


def main(argv: Sequence[str]) -> int:
    """Become the program, or with `--messages` run it. Returns the exit code that a shell has for a failure, or that
    of the program."""
    if argv[2:3] == [_MESSAGES]:
        from kedge.runtime import join_input

        return join_input.run(lambda: _become([*argv[:2], *argv[3:]]))
    return _become(argv)


def _become(argv: Sequence[str]) -> int:
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
