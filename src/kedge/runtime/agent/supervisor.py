"""Starts the supervisor of a task attempt. It becomes a child of the keeper, which reaps it and tells its end: so an
agent that was started again knows as much of it as the one that has started it."""

from __future__ import annotations

import os

from kedge.contract import JOB_ID_VARIABLE, SUPERVISOR_LOG
from kedge.light import signal
from kedge.own_files import open_own
from kedge.runtime.agent.keeper import AgentTask
from kedge.runtime.agent.node_ports import NodePorts
from kedge.runtime.agent.task_files import AttemptFiles
from kedge.runtime.process import signals
from kedge.runtime.setup import environment

_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ, signals.NOTICE, *signals.STOPS, *signals.FORWARDED)  # by this process


def start(task: AgentTask, files: AttemptFiles, folder: str, ports: NodePorts) -> int:
    """Start a supervisor, which takes over the ports, and return its pid. OSError."""
    argv = [*task.supervisor, files.spec, "--status", files.status, "--control", files.control]
    argv += ["--site", task.site] if task.site else []
    inherited = [*ports.holds, *ports.locks]
    for option, fds in (("--hold", ports.holds), ("--keep", ports.locks)):
        argv += [option, ",".join(map(str, fds))] if fds else []
    log = open_own(f"{folder}/{SUPERVISOR_LOG}", os.O_WRONLY | os.O_APPEND)
    for fd in inherited:
        os.set_inheritable(fd, True)
    try:
        variables = {**os.environ, JOB_ID_VARIABLE: task.orders.run}
        environment.undo_coercion(variables)
        return _spawn_orphan(argv, variables, log)
    finally:
        for fd in inherited:
            os.set_inheritable(fd, False)
        os.close(log)


def _spawn_orphan(argv: list[str], variables: dict[str, str], log: int) -> int:
    """Start the program through a child that ends at once, and return its pid. OSError."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        between = os.fork()
        if between == 0:
            try:
                os.write(writer, b"%d" % _spawn(argv, variables, log))
            finally:
                os._exit(0)
        os.waitpid(between, 0)
        os.close(writer)
        writer = -1
        answer = int(os.read(reader, 64) or b"0")
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    if answer <= 0:
        raise OSError(-answer, os.strerror(-answer) if answer else "the process that starts it was killed", argv[0])
    return answer


def _spawn(argv: list[str], variables: dict[str, str], log: int) -> int:
    """The pid, or the negative number of the error. The supervisor has a session of its own, because signals to the
    group of the keeper come to it as requests; stop signals stay blocked until it can handle them."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    try:
        return os.posix_spawn(
            argv[0], argv, variables, file_actions=actions, setsid=True, setsigmask=signals.STOPS,
            setsigdef=_IGNORED,
        )  # fmt: skip
    except OSError as error:
        return -(error.errno or 1)
