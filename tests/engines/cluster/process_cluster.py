"""A cluster of this machine: its agents are processes, its nodes are names. For tests of what is the same in all
clusters."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import kedge
from kedge import processes
from kedge.contract import CODE_DIR
from kedge.engines.base import Task, TaskAttempt
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.link.launch import AgentOrders
from kedge.own_files import write_all

AGENT = Path(kedge.__file__).parent / "runtime" / "agent"
_LEAVE_SEC = 5.0  # for an agent that was told to finish
INDEX, NODE = "TEST_TASK_INDEX", "TEST_NODE"


class AgentProcess(NamedTuple):
    """An agent with all that it has started. `start_time` tells its pid from a later process with the same."""

    task: Task
    attempt: int
    pid: int
    start_time: int
    task_attempt: int = 0


class ProcessCluster:
    """Starts the agents of a run, and knows what has become of them, even those that an earlier controller started: the
    file `record` is what a real cluster would remember. `orders` is what every agent is told, without tokens.

    `nodes` are the names of its nodes, to which tasks are dealt in turn. A task in `absent` gets no agent. Below the
    folder `hidden`, agents and tasks see nothing. They get the `variables`.

    With `relaunches`, each attempt of a task has an agent of its own, as in a cluster of pods. `strays`: an agent that
    does not finish is left alone when the next one starts, as on a node that is out of reach.
    """

    def __init__(
        self,
        record: Path,
        orders: AgentOrders,
        nodes: Sequence[str] = ("n1", "n2"),
        hidden: Path | None = None,
        variables: Mapping[str, str] | None = None,
        relaunches: bool = False,
    ) -> None:
        self.relaunches, self.strays = relaunches, False
        self._next: dict[Task, AgentOrders] = {}  # of agents whose predecessor has not gone
        self._patience: dict[Task, float] = {}  # for that, until when
        self.launched: list[AgentProcess] = []  # all that were ever launched
        self._variables = variables or {}
        self._record, self._orders, self._nodes = record, orders, nodes
        self._before = _hiding(hidden) if hidden else []
        self.agents: dict[Task, AgentProcess] = {}
        self.absent: set[Task] = set()
        self.killed: list[Task] = []  # by `kill`
        self.words: dict[Task, tuple[GoneKind, str]] = {}  # what is said about a task's end, unless it is ENDED
        self._epoll = select.epoll()
        self._fds: dict[int, AgentProcess] = {}  # of pidfds
        self._gone: list[Gone] = []
        self._acts: list[Callable[[], object]] = []
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll.register(self._wake, select.EPOLLIN)

    def launch(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        self.agents.clear()
        self.launched.clear()
        tasks = [Task(role, index) for role, each in tokens.items() for index in range(len(each))]
        for number, task in enumerate(tasks):
            if task not in self.absent:
                orders = self._orders._replace(attempt=attempt, role=task.role, tokens=list(tokens[task.role]))
                self._start(task, orders, self._nodes[number % len(self._nodes)])

    def relaunch(self, task: Task, attempt: int, task_attempt: int, token: str) -> None:
        found = self.agents.get(task)
        if found and (found.attempt, found.task_attempt) == (attempt, task_attempt):
            return
        tokens = ["" for _ in range(task.task_index)]
        orders = self._orders._replace(
            attempt=attempt, role=task.role, tokens=[*tokens, token], task_attempt=task_attempt
        )
        self._next[task], self._patience[task] = orders, time.monotonic() + _LEAVE_SEC
        self._start_next()

    def _start_next(self) -> None:
        """Start the agents whose predecessors have gone."""
        for task in list(self._next):
            here = [agent for agent in self._fds.values() if agent.task == task]
            if here and not self.strays:
                if self._patience[task] <= time.monotonic():
                    self._patience[task] = math.inf
                    for agent in here:
                        self._kill(agent)
                continue
            del self._patience[task]
            self._start(task, self._next.pop(task), self._nodes[0])

    @property
    def due(self) -> float:
        return min(self._patience.values(), default=math.inf)

    def _write_record(self) -> None:
        fresh = self._record.with_suffix(".new")
        fresh.write_text(json.dumps([[*each.task, *each[1:]] for each in self.launched]))
        fresh.replace(self._record)

    def _start(self, task: Task, orders: AgentOrders, node: str) -> None:
        """An agent gets its orders once it is recorded. One whose controller was killed before that ends without them:
        no agent runs that the next controller does not know."""
        spec = importlib.util.find_spec("re2")
        assert spec
        assert spec.origin
        site = os.path.dirname(os.path.dirname(spec.origin))
        argv = [sys.executable, "-I", "-S", str(AGENT), "--index-variable", INDEX, "--node-variable", NODE]
        with open(self._record.with_suffix(".log"), "ab") as log:  # nothing of them keeps the test's own output open
            process = subprocess.Popen(
                [*self._before, *argv, "--site", site],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self._variables, INDEX: str(task.task_index), NODE: node},
            )
        found = processes.identify(process.pid)
        assert found
        process.returncode = 0  # it is reaped here, not by the module subprocess
        self._add(AgentProcess(task, orders.attempt, found.pid, found.start_time, orders.task_attempt))
        self._write_record()
        assert process.stdin
        with process.stdin as stdin:
            write_all(stdin.fileno(), orders.line())

    def _add(self, agent: AgentProcess) -> None:
        self.agents[agent.task] = agent
        self.launched.append(agent)
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(agent.pid)
            if processes.is_alive(_process(agent)):
                self._fds[fd] = agent
                self._epoll.register(fd, select.EPOLLIN)
                return
            os.close(fd)
        self._say(self._gone_agent(agent))

    def _gone_agent(self, agent: AgentProcess, code: int | None = None) -> Gone:
        kind, text = self.words.get(agent.task, (GoneKind.ENDED, ""))
        number = agent.task_attempt if self.relaunches else None
        return Gone(agent.task, agent.attempt, kind, text, code, number)

    def adopt(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        known = json.loads(self._record.read_text()) if self._record.exists() else []
        for role, index, *rest in known:
            if rest[0] == attempt:
                self._add(AgentProcess(Task(role, index), *rest))
        if not self.agents and not self.relaunches:
            self.launch(attempt, tokens)

    def supervisor_ended(self, attempt: TaskAttempt) -> None:
        pass

    def whereabouts(self, task: Task) -> str:
        return "" if task in self.absent else "on a node of this machine"

    def fileno(self) -> int:
        return self._epoll.fileno()

    def poll(self) -> list[Gone]:
        for fd, _ in self._epoll.poll(0):
            if fd == self._wake:
                os.read(self._wake, 4096)
            else:
                self._ended(fd, self._fds.pop(fd))
        while self._acts:
            self._acts.pop()()
        self._start_next()
        gone, self._gone = self._gone, []
        return gone

    def _ended(self, fd: int, agent: AgentProcess) -> None:
        self._epoll.unregister(fd)
        os.close(fd)
        code = None
        with suppress(ChildProcessError):  # it is another controller's child
            code = os.waitstatus_to_exitcode(os.waitpid(agent.pid, 0)[1])
        self._gone.append(self._gone_agent(agent, code))

    def kill(self, task: Task) -> None:
        self.killed.append(task)
        self._kill(self.agents[task])

    def lose(self, task: Task, kind: GoneKind, text: str = "") -> None:
        """Everything of the task ends, and the cluster says why."""
        self.words[task] = (kind, text)
        self._kill(self.agents[task])

    def _kill(self, agent: AgentProcess) -> None:
        root = _process(agent)
        processes.kill(lambda: [root, *processes.descendants(agent.pid)] if processes.is_alive(root) else [])

    def say(self, task: Task, kind: GoneKind, text: str = "") -> None:
        """The cluster says that the task has gone, whatever is the case."""
        self._say(Gone(task, self.agents[task].attempt, kind, text))

    def give_up(self, task: Task, kind: GoneKind, text: str) -> None:
        """The cluster says that the absent task never comes."""
        self._say(Gone(task, next(iter(self.agents.values())).attempt, kind, text))

    def _say(self, gone: Gone) -> None:
        self._gone.append(gone)
        os.write(self._waker, b"\0")

    def soon(self, act: Callable[[], object]) -> None:
        """Have the controller's own thread do something: nothing of the controller may be called in another one."""
        self._acts.append(act)
        os.write(self._waker, b"\0")

    def end(self, attempt: int) -> None:
        for agent in list(self._fds.values()):
            if agent.attempt == attempt:
                self._kill(agent)

    def close(self) -> None:
        end = time.monotonic() + 10.0
        for agent in self._fds.values():
            self._kill(agent)
        while self._fds and time.monotonic() < end:
            self._epoll.poll(0.1)
            self.poll()
        self.leave()

    def leave(self) -> None:
        """Release what this process has, and let the agents live."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        self._epoll.close()
        os.close(self._wake)
        os.close(self._waker)


def _hiding(folder: Path) -> list[str]:
    """What starts a program that does not see what is in a folder, but the code that every task gets a copy of; only
    root can do that."""
    if os.geteuid() != 0:
        return []
    script = f"""
        if [ -d "$0/{CODE_DIR}" ]; then code=$(mktemp -d); mount --bind "$0/{CODE_DIR}" "$code"; fi
        mount -t tmpfs -o size=4k none "$0" || exit
        if [ "$code" ]; then mkdir "$0/{CODE_DIR}"; mount --bind "$code" "$0/{CODE_DIR}"; fi
        exec "$@"
    """
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(folder)]


def _process(agent: AgentProcess) -> processes.Process:
    return processes.Process(agent.pid, agent.start_time)
