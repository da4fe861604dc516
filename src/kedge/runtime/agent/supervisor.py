"""Starts the supervisor of a task attempt. It is forked from the agent: a new interpreter takes twice the CPU time, and
opens twenty files on the shared file system. It becomes a child of the keeper, which reaps it and tells its end: so
it is not affected when the agent is killed, and a restarted agent knows as much of it as the one that started it."""

from __future__ import annotations

import gc
import os
import sys

from kedge import command_line
from kedge.contract import JOB_ID_VARIABLE, SUPERVISOR_LOG
from kedge.light.contextlib import suppress
from kedge.light.types import Collection
from kedge.own_files import open_own
from kedge.runtime.agent.keeper import AgentTask
from kedge.runtime.agent.node_ports import NodePorts
from kedge.runtime.agent.task_files import AttemptFiles
from kedge.runtime.process import signals
from kedge.runtime.process.orphan import fork_orphan
from kedge.runtime.setup import environment


def start(task: AgentTask, files: AttemptFiles, folder: str, ports: NodePorts) -> int:
    """Start a supervisor, which takes over the ports, and return its pid. OSError."""
    arguments = [files.spec, "--status", files.status, "--control", files.control]
    arguments += ["--site", task.site] if task.site else []
    for option, fds in (("--hold", ports.holds), ("--keep", ports.locks)):
        arguments += [option, ",".join(map(str, fds))] if fds else []
    log = open_own(f"{folder}/{SUPERVISOR_LOG}", os.O_WRONLY | os.O_APPEND)
    try:
        if pid := fork_orphan(lambda: _supervise(task, arguments, log, {*ports.holds, *ports.locks})):
            return pid
    finally:
        os.close(log)
    raise ChildProcessError(0, "the process that forks it was killed")


def _supervise(task: AgentTask, arguments: list[str], log: int, passed: Collection[int]) -> int:
    """In the new process: be a supervisor, as if its own command line had started it, and return its exit code."""
    # Signals to the group of the keeper come to it as requests; stop signals stay blocked until it can handle them.
    os.setsid()
    signals.block(signals.STOPS)
    signals.restore_defaults()
    for fd in (1, 2):
        os.dup2(log, fd)
    kept = {0, 1, 2, *passed}
    if task.runtime:
        kept.add(_use_packed(task.runtime))
    _close_others(kept)
    os.environ[JOB_ID_VARIABLE] = task.orders.run
    environment.restore(os.environ)
    command_line.show([sys.executable, "-I", "-S", task.runtime or "kedge.runtime", *arguments])
    gc.disable()
    from kedge.runtime.main import main  # the agent itself does not need it

    gc.freeze()
    gc.enable()
    return main(arguments)


def _use_packed(path: str) -> int:
    """Load modules from this file instead of the agent's; its descriptor."""
    from kedge.runtime.packed_start import PackedModules

    modules = PackedModules(path)
    sys.meta_path[0] = modules
    return modules.file


def _close_others(kept: Collection[int]) -> None:
    """Close what is the agent's: above all its connection and the locks of its folders."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):  # the list itself
                os.close(int(name))
