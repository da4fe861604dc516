"""Starting a program in a process group of its own, with the exact reason if it cannot be started."""

from __future__ import annotations

import errno
import os
import resource

from kedge.contract import SHELL_NOT_FOUND
from kedge.light.types import NamedTuple, NoReturn
from kedge.runtime.process import signals

_STAGES = ("set up its descriptors", "enter its working directory", "be executed")
DESCRIPTORS, DIRECTORY, EXECUTE = range(3)


class Program(NamedTuple):
    """What to run: `argv[0]` is the path of the executable; `stdout` and `stderr` are descriptors; stdin is /dev/null.
    `open_files` is its soft limit of open files, None to keep the present one; `inherited` are further descriptors that
    it gets under the same numbers."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    stdout: int
    stderr: int
    open_files: int | None = None
    inherited: tuple[int, ...] = ()


class CannotSpawn(Exception):
    """The program was not started. `stage` is DESCRIPTORS, DIRECTORY or EXECUTE; `code` is an errno."""

    def __init__(self, program: Program, stage: int, code: int) -> None:
        self.program, self.stage, self.code = program, stage, code
        super().__init__(f"{program.argv[0]} could not {_STAGES[stage]}: {os.strerror(code)}")


def spawn(program: Program) -> int:
    """Start a program and return its pid, which is also its process group. CannotSpawn when exec failed."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        signals.block()
        try:
            pid = os.fork()
            if pid == 0:
                _become(program, writer)
        finally:
            signals.unblock()
            os.close(writer)
        failure = os.read(reader, 16)  # empty when exec succeeded, which closes the child's end
    finally:
        os.close(reader)
    if failure:
        os.waitpid(pid, 0)
        raise CannotSpawn(program, failure[0], int(failure[1:]))
    return pid


def _become(program: Program, writer: int) -> NoReturn:
    stage = DESCRIPTORS
    try:
        os.setpgid(0, 0)
        signals.give_back()
        _set_descriptors(program)
        stage = DIRECTORY
        os.chdir(program.directory)
        stage = EXECUTE
        os.execve(program.argv[0], program.argv, program.environment)  # noqa: S606  (the shell is the program)
    except OSError as error:
        os.write(writer, b"%c%d" % (stage, error.errno or errno.EINVAL))
    except ValueError:  # a NUL byte, or a name with "=" in it
        os.write(writer, b"%c%d" % (stage, errno.EINVAL))
    finally:
        os._exit(SHELL_NOT_FOUND)


def _set_descriptors(program: Program) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (program.stdout, 1), (program.stderr, 2)):
        os.dup2(source, target)
    os.close(null)
    for fd in program.inherited:
        os.set_inheritable(fd, True)
    if program.open_files is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (program.open_files, hard))
