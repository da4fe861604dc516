"""The keeper: the main process of a task on a cluster, the parent of its agent. It is the subreaper of the task,
restarts the agent if that is killed, and forwards the scheduler's signals to it, so that the supervisor gets each
signal once and the agent survives to report how the task ended. It imports next to nothing.

It writes to the agent in lines of a pipe, which a new agent goes on reading: `ended PID WAIT_STATUS`, `signal NUMBER`.
"""

from __future__ import annotations

import gc
import os
import time

from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.light.types import NamedTuple, NoReturn
from kedge.link.launch import AgentOrders
from kedge.runtime.agent import tree
from kedge.runtime.agent.node_folders import NodeFolders
from kedge.runtime.process import children, signals

GIVEN_UP = 2  # exit code: another start cannot help
FINISHED = 0
_PAUSES_SEC = (0.0, 0.1, 0.3, 0.6)  # before an agent is started again
_LONG_SEC = 600.0  # an agent that has lived so long starts this from the beginning
_HANDLED = (*signals.STOPS, signals.NOTICE, *sorted(signals.FORWARDED))


class PodFifos(NamedTuple):
    """The open FIFOs between the containers of a pod. They are the keeper's, so that each agent goes on with them,
    whatever the task has put in their place: the end of `status` to read, `control` to write. `root` stands before all
    paths of kedge.link.pod_folders; it is empty in a pod."""

    status: int
    control: int
    root: str = ""


class AgentTask(NamedTuple):
    """Whose agent this is. `orders` is without the tokens of other tasks; `runtime` is the packed file with the modules
    of supervisors, None without one; `site` is their option; `pod` is there if the supervisor runs in another
    container."""

    orders: AgentOrders
    task_index: int
    node: str
    runtime: str | None
    site: str | None
    pod: PodFifos | None = None

    @property
    def name(self) -> str:
        """A name that no other task of this user has."""
        orders = self.orders
        later = f"-{orders.task_attempt}" if orders.task_attempt else ""
        return f"{orders.run}-{orders.attempt}-{orders.role}-{self.task_index}{later}"


def keep(task: AgentTask, folders: NodeFolders) -> int:
    """Keep an agent running until it finishes; then end everything below, and return the exit code of the task."""
    signal.pthread_sigmask(signal.SIG_SETMASK, (signal.SIGCHLD, *_HANDLED))
    children.become_subreaper()
    told, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return _keep(task, folders, told, tell)
    finally:
        _end_all()
        folders.remove()


def _keep(task: AgentTask, folders: NodeFolders, told: int, tell: int) -> int:
    lost, started = 0, 0
    while True:
        began = time.monotonic()
        try:
            agent = os.fork()
        except OSError as error:  # too many processes, or too little memory, perhaps only for now
            how = f"could not be started: {error.strerror}"
        else:
            if agent == 0:
                os.close(tell)
                _become_agent(task, folders, told, restarted=started > 0)
            started += 1
            code = _watch(agent, tell)
            if code in (FINISHED, GIVEN_UP):
                return code
            how = f"ended with {_shown(code)}"
        lost = 0 if time.monotonic() - began > _LONG_SEC else lost + 1
        say(f"the agent of {task.name} on {task.node} {how}")
        if lost > len(_PAUSES_SEC):
            say(f"the agent of {task.name} failed {lost} times in a row; it is not started again")
            return GIVEN_UP
        time.sleep(_PAUSES_SEC[lost - 1] if lost else 0.0)


def _become_agent(task: AgentTask, folders: NodeFolders, told: int, *, restarted: bool) -> NoReturn:
    """In the child: a session of its own, so that signals to the group of the keeper come through the keeper alone."""
    code = 1
    try:
        os.setsid()
        for number in _HANDLED:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        gc.disable()
        from kedge.runtime.agent.run import run  # the keeper does not need what it loads

        gc.freeze()
        gc.enable()
        code = run(task, folders, told, restarted=restarted)
    except BaseException as error:
        from kedge.runtime import bugs

        say(bugs.describe(error) if isinstance(error, Exception) else repr(error))
    finally:
        os._exit(code)


def _watch(agent: int, tell: int) -> int:
    """Reap and pass signals on until the agent has ended; its exit code, negative for a signal."""
    while True:
        status = _reap(agent, tell)
        if status is not None:
            return os.waitstatus_to_exitcode(status)
        number = signal.sigwait((signal.SIGCHLD, *_HANDLED))
        if number != signal.SIGCHLD:
            _tell(tell, f"signal {int(number)}")


def _reap(agent: int, tell: int) -> int | None:
    """Reap what has ended, and tell it before: a process that is gone has been told. The agent's own status."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        status = found.si_status << 8 if found.si_code == os.CLD_EXITED else found.si_status
        if found.si_pid != agent:
            _tell(tell, f"ended {found.si_pid} {status}")
        os.waitpid(found.si_pid, 0)
        if found.si_pid == agent:
            return status


def _tell(tell: int, line: str) -> None:
    try:
        os.write(tell, f"{line}\n".encode())
    except OSError:
        return  # the pipe is full: the agent does not read, and looks itself at what it has started


def _end_all() -> None:
    """Kill and reap everything below."""
    give_up = time.monotonic() + tree.GIVE_UP_SEC
    while children.exist() and time.monotonic() < give_up:
        tree.kill(tree.below(os.getpid()))
        signal.sigtimedwait((signal.SIGCHLD,), tree.RESCAN_SEC)
        while children.exist() and os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _shown(code: int) -> str:
    return f"signal {signals.name_of(-code)}" if code < 0 else f"exit code {code}"


def say(text: str) -> None:
    """Write a line for people. The scheduler's program that reads it may be gone."""
    with suppress(OSError):
        os.write(2, f"kedge agent: {text}\n".encode(errors="backslashreplace"))
