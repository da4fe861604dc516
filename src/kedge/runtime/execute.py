"""Running a task's programs: processes, pipes and error messages."""

from __future__ import annotations

import errno
import os
import time

from kedge import contract
from kedge.light.types import Callable
from kedge.runtime import outcome
from kedge.runtime.logs.mask import Finder
from kedge.runtime.process import procfs, spawn
from kedge.runtime.process.spawn import CannotSpawn, Program
from kedge.runtime.process.time_limit import TimeLimit
from kedge.runtime.session import Session
from kedge.runtime.setup.prepare import CannotStart, PreparedTask

LINGER_SEC = 5.0  # how long background processes may hold the command's pipes open after its end


def has_pipefail(session: Session, shell: str) -> bool:
    """Whether a shell supports the option, found out by running it."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        program = Program((shell, "-c", "set -o pipefail"), dict(os.environ), "/", null, null)
        return supervise(session, program, lambda _pid: None) == 0
    finally:
        os.close(null)


def program(session: Session, prepared: PreparedTask, argv: tuple[str, ...], stdout: int, stderr: int) -> Program:
    """A program of the task, with the task's working directory and environment."""
    return Program(argv, prepared.environment, session.spec.workdir, stdout, stderr, session.options.open_files)


def supervise(
    session: Session,
    program: Program,
    on_start: Callable[[int], None],
    limit: TimeLimit | None = None,
    before_stop: Callable[[int], None] | None = None,
) -> int:
    """Run a program to its end and return the wait status. CannotStart explains to the user why it never ran."""
    try:
        return session.supervisor.run(program, on_start, session.broken, limit, before_stop)
    except CannotSpawn as error:
        raise _cannot_start(error) from error


def start_service(session: Session, program: Program, on_end: Callable[[int], None]) -> int:
    """Start a program beside the command and return its pid. CannotStart explains why it never ran."""
    try:
        return session.supervisor.start_service(program, on_end)
    except CannotSpawn as error:
        raise _cannot_start(error) from error


def run_command(
    session: Session, prepared: PreparedTask, secrets: Finder | None, before_stop: Callable[[int], None] | None
) -> int:
    """Run the user's command, read all its output, and return its wait status. `before_stop(pid)` is called before it
    is stopped."""
    path = prepared.scripts.write(contract.USER_SCRIPT, (prepared.options, *session.spec.command))
    writers = session.logs.connect(session.loop, secrets, session.consoles)

    def on_start(pid: int) -> None:
        close_all(writers)
        session.events.emit(contract.RUNNING, pid=pid, shell=prepared.shell.path)

    try:
        command = program(session, prepared, (prepared.shell.path, path), *writers)
        status = supervise(session, command, on_start, before_stop=before_stop)
    except CannotStart:
        close_all(writers)
        raise
    session.events.emit(contract.EXITED, code=outcome.shell_code(status), signal=outcome.death(status))
    _finish_output(session)
    return status


def end_descendants(session: Session, *, services: bool = True) -> None:
    """End all processes that are left below this one, or all but the services, and log which they were."""
    found, left = session.supervisor.end_descendants(services=services)
    if found:
        session.log.info(f"Ended processes that were left running: {_list(found)}")
    if left:
        session.log.error(f"Processes that cannot be killed: {_list(left)}")


def close_all(fds: tuple[int, ...]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


def _cannot_start(error: CannotSpawn) -> CannotStart:
    """The failed start, explained for the user."""
    program, why = error.program, os.strerror(error.code)
    if error.stage == spawn.DIRECTORY:
        return CannotStart(f"the working directory {program.directory} cannot be entered: {why}")
    if error.stage == spawn.DESCRIPTORS:
        return CannotStart(f"the limit of {program.open_files} open files or the descriptors cannot be set: {why}")
    if error.code == errno.E2BIG:
        size = sum(len(os.fsencode(name)) + len(os.fsencode(value)) + 2 for name, value in program.environment.items())
        return CannotStart(
            f"the environment is too large for the kernel ({size} bytes): {why}", contract.SHELL_CANNOT_EXECUTE
        )
    if error.code == errno.ENOENT:  # the program was found before, so its dynamic loader is missing
        return CannotStart(
            f"{program.argv[0]} cannot be executed, or the loader it needs is missing: {why}", contract.SHELL_NOT_FOUND
        )
    return CannotStart(f"{program.argv[0]} cannot be executed: {why}", contract.SHELL_CANNOT_EXECUTE)


def _finish_output(session: Session) -> None:
    """After the command has ended: read the rest of its output; wait LINGER_SEC at most for background processes."""
    logs, supervisor = session.logs, session.supervisor
    closed = session.loop.until(lambda: not logs.open_pipes or supervisor.stopping, time.monotonic() + LINGER_SEC)
    if supervisor.stopping:
        end_descendants(session, services=False)
    elif not closed:
        holders = procfs.holders(supervisor.descendants(), (pipe.fd for pipe in logs.open_pipes))
        session.log.warning(
            f"Closed the command's output {LINGER_SEC:.0f} seconds after it ended; still held open by: {_list(holders)}"
        )
    logs.close_pipes()


def _list(processes: list[procfs.ProcessStat]) -> str:
    return ", ".join(map(str, processes))
