"""Measures the link of a job with many tasks on a cluster: one controller, and an agent for each task.

    python benchmarks/link.py [TASKS [REAL]]

REAL (50) of the TASKS (1000) are real agents with a supervisor around `true`; the others are simulated in one process
by the agents' own protocol code, which answers as an agent would. All begin at once. The controller lets each take a
port, waits until all have (the barrier), sends every task its TaskSpec with the addresses of all tasks, and hears that
its command runs. It is measured twice: the controller's end of the link alone, and with the backend of cluster engines,
which also writes the tasks' folders. Memory is that of the controller's process, beyond what it has before anybody
connects. Agents share the processors with it here, as they would not on a cluster: so their CPU time is given too, that
of a real one with its keeper, its supervisor and the command.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import re2
import yaml

import kedge
from kedge.contract import TaskSpec
from kedge.engines.base import Started, Task
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import Joined, Message
from kedge.jobs import link_keys
from kedge.link import messages
from kedge.link.frames import LinkFrame, SharedValue
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders
from kedge.open_files import raise_limit
from kedge.plan.build import build
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs, Secrets
from kedge.resolve.resolve import resolve
from kedge.runs.folder import Run
from kedge.runtime.agent import addresses
from kedge.runtime.agent.connection import AgentConnection, AgentFacts
from kedge.spec.parse import parse

AGENT = Path(kedge.__file__).parent / "runtime" / "agent"
SITE = str(Path(re2.__file__).parents[1])
DEADLINE_SEC = 600.0
CLOSE_SEC = 60.0
IDLE_SEC = 25.0  # more than the time between two heartbeats


class Agents:
    """All agents of the job; for the backend, the cluster that runs them."""

    due = float("inf")
    mirrored: int | None = None  # bytes of outputs, if the tasks do not have the run folder

    relaunches = False

    def __init__(self, keys: Any, folder: Path, tasks: int, real: int) -> None:
        self.port = 0
        self._keys, self._folder, self._tasks, self._real = keys, str(folder), tasks, real
        self._processes: list[subprocess.Popen[bytes]] = []
        self._epoll = select.epoll()
        self._left = set(range(tasks))
        self.cpu: dict[int, float] = {}  # of processes that have ended

    def launch(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        where = (["127.0.0.1"], self.port, self._keys.certificate)
        line = AgentOrders(*where, "benchmark", None, attempt, "worker", list(tokens["worker"]), self.mirrored).line()
        argv = [sys.executable, "-I", "-S", str(AGENT), "--index-variable", "INDEX", "--node-variable", "NODE"]
        commands = [([*argv, "--site", SITE], str(number)) for number in range(self._real)]
        if self._real < self._tasks:
            commands.append(([sys.executable, __file__, "--simulate", str(self._real)], ""))
        for command, index in commands:
            environment = {**os.environ, "INDEX": index, "NODE": "node", "TMPDIR": self._folder}
            with open(os.memfd_create("orders"), "r+b") as stdin:
                stdin.write(line)
                stdin.seek(0)
                process = subprocess.Popen(command, stdin=stdin, env=environment, start_new_session=True)
            self._processes.append(process)

    def adopt(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        raise NotImplementedError

    def whereabouts(self, task: Task) -> str:
        return "on this machine"

    def fileno(self) -> int:
        return self._epoll.fileno()

    def poll(self) -> list[Gone]:
        """The tasks whose agents have ended, which are all that a process stood for."""
        self.reap()
        ended = {number for number in self._left if min(number, self._real) in self.cpu} if self.cpu else set()
        self._left -= ended
        return [Gone(Task("worker", number), 0, GoneKind.ENDED) for number in ended]

    def reap(self, options: int = os.WNOHANG) -> bool:
        """Learn what processes that have ended have used. Whether all have."""
        for number in range(len(self._processes)):
            if number not in self.cpu:
                pid, status, usage = os.wait4(self._processes[number].pid, options)
                if pid:
                    self._processes[number].returncode = status
                    self.cpu[number] = usage.ru_utime + usage.ru_stime
        return len(self.cpu) == len(self._processes)

    def kill(self, task: Task) -> None:
        raise NotImplementedError

    def relaunch(self, task: Task, attempt: int, task_attempt: int, token: str) -> None:
        raise NotImplementedError

    def end(self, attempt: int) -> None:
        """They end by themselves."""

    def close(self) -> None:
        """Wait for them; one that has missed its FINISH would look for another controller for an hour."""
        end = time.monotonic() + CLOSE_SEC
        while not self.reap():
            if time.monotonic() > end:
                for number, process in enumerate(self._processes):
                    if number not in self.cpu:
                        print(f"the agent {number} has not ended, and is killed", file=sys.stderr)
                        os.killpg(process.pid, signal.SIGKILL)
                end = float("inf")
            time.sleep(0.01)


class LinkAlone:
    """The controller's end of the link, and the least that a controller does."""

    def __init__(self, folder: Path, tasks: int, real: int) -> None:
        self.folder, self.tasks = folder, tasks
        self.keys = link_keys.made()
        self.server = LinkServer(self.keys, lambda *_who: True, "benchmark")
        self.joined, self.ports, self.running = 0, dict[str, dict[str, list[int]]](), 0
        self.agents = Agents(self.keys, folder, tasks, real)
        self.agents.port = self.server.port

    def launch(self) -> None:
        tokens = [task_token(self.keys, 0, "worker", number) for number in range(self.tasks)]
        self.agents.launch(0, {"worker": tokens})

    def turn(self, longest: float) -> None:
        wait = min(longest, max(0.0, self.server.due - time.monotonic()))
        select.select([self.server.fileno()], [], [], wait)
        for update in self.server.poll():
            if isinstance(update, Joined):
                self.joined += 1
                self.server.send(update.task, messages.RESERVE, {"ports": {"http": 1}})
            elif isinstance(update, Message) and update.kind == messages.RESERVED:
                self.ports[str(update.task)] = update.header["ports"]
                if len(self.ports) == self.tasks:
                    self._open_gate()
            elif isinstance(update, Message) and update.header.get("line", {}).get("event") == "running":
                self.running += 1

    def _open_gate(self) -> None:
        hosts = [{"host": "127.0.0.1", "ports": self.ports[f"worker:{n}"]} for n in range(self.tasks)]
        peers = SharedValue({"roles": {"worker": hosts}})
        for number in range(self.tasks):
            self.server.send(Task("worker", number), messages.START, self._start(number, peers))

    def _start(self, number: int, peers: SharedValue) -> dict[str, Any]:
        spec = TaskSpec(
            user="me", job="benchmark", job_id="me~benchmark", role="worker", task_index=number, job_attempt=0,
            task_attempt=0, uid="1", folder=f"{self.folder}/{number}", workdir=f"{self.folder}/{number}/work",
            environment={}, command=("true",), steps=(), host="127.0.0.1", ports=self.ports[f"worker:{number}"],
            peers_file="",
        )  # fmt: skip
        return {"task_attempt": 0, "spec": spec.to_json(), "peers": peers, "secrets": None}

    def close(self) -> None:
        for number in range(self.tasks):
            self.server.send(Task("worker", number), messages.FINISH, {})
        end = time.monotonic() + CLOSE_SEC
        while not self.agents.reap() and time.monotonic() < end:
            self.turn(0.05)
        self.agents.close()


class WholeBackend:
    """The backend of cluster engines."""

    def __init__(self, folder: Path, tasks: int, real: int) -> None:
        self.tasks, self.joined, self.running = tasks, 0, 0
        keys, made, run = link_keys.made(), plan(tasks), Run(folder / "run")
        for path in (run.path, run.job_dir, run.path / "cluster"):
            path.mkdir()
        server = LinkServer(keys, lambda *who: self._backend.expects(*who), "benchmark")
        agents = self.agents = Agents(keys, folder, tasks, real)
        agents.port = server.port
        nothing = Secrets({}, {})
        self._backend = ClusterBackend(made, run, nothing, keys, server, agents, self._emit, self._emit)

    def _emit(self, *_what: object, **_facts: object) -> None:
        """Nobody listens."""

    def launch(self) -> None:
        self._backend.place(0)
        for number in range(self.tasks):
            self._backend.start(Task("worker", number), 0, 0, ())

    def turn(self, longest: float) -> None:
        wait = min(longest, max(0.0, self._backend.due - time.monotonic()))
        select.select([self._backend.fileno()], [], [], wait)
        for update in self._backend.poll():
            self.running += isinstance(update, Started)

    def close(self) -> None:
        self._backend.close()


def plan(tasks: int, command: str = "true") -> Plan:
    """A job with one role."""
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"http": 1}}
    role = {"dockerImage": "image", "resourcePerInstance": resources, "instances": tasks, "commands": [command]}
    image = {"name": "image", "type": "dockerimage", "uri": "x"}
    head = {"protocolVersion": 2, "name": "j", "type": "job"}
    document = {**head, "prerequisites": [image], "taskRoles": {"worker": role}}
    return build(resolve(parse(yaml.safe_dump(document)), Inputs("me")))


class SimulatedAgent:
    """What an agent says, without anything that it would do."""

    def __init__(self, orders: AgentOrders, number: int) -> None:
        self.finished = False
        self._number = number
        facts = AgentFacts(number, "node", addresses.of_node(["127.0.0.1"]), addresses.boot_id(), os.getpid())
        self.link = AgentConnection(orders, facts, dict)

    def turn(self) -> None:
        for frame in self.link.poll():
            self._obey(frame)

    def _obey(self, frame: LinkFrame) -> None:
        if frame.kind == messages.RESERVE:
            ports = {label: [20000] * count for label, count in frame.header["ports"].items()}
            self.link.send(messages.RESERVED, {"ports": ports})
        elif frame.kind == messages.START:
            for event in ("starting", "running"):
                self.link.send(messages.EVENT, {"task_attempt": 0, "line": self._line(event)})
        elif frame.kind in (messages.FINISH, messages.REFUSED):
            self.finished = True
            self.link.close()

    def _line(self, event: str) -> dict[str, Any]:
        return {"event": event, "time": "2026-01-01", "task": f"worker:{self._number}", "pid": os.getpid()}


def simulate(first: int) -> None:
    """Be all agents from the task `first` on. Orders come as an agent's do."""
    orders = AgentOrders.from_line(sys.stdin.buffer.readline())
    agents = [SimulatedAgent(orders, number) for number in range(first, len(orders.tokens))]
    epoll, by_fd = select.epoll(), {agent.link.fileno(): agent for agent in agents}
    for fd in by_fd:
        epoll.register(fd, select.EPOLLIN)
    ready, parent = agents, os.getppid()
    while by_fd and os.getppid() == parent:
        for agent in ready:
            agent.turn()
            if agent.finished:
                by_fd = {fd: other for fd, other in by_fd.items() if other is not agent}
        found = [by_fd[fd] for fd, _ in epoll.poll(0.05) if fd in by_fd]
        now = time.monotonic()
        ready = [*found, *(agent for agent in by_fd.values() if agent.link.due <= now and agent not in found)]


def memory() -> tuple[int, int]:
    """KiB of this process: now, and at most so far."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]), int(lines["VmHWM"].split()[0])


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(kind: type[LinkAlone] | type[WholeBackend], tasks: int, real: int) -> dict[str, float]:
    """What one kind of controller takes, by what it is."""
    with tempfile.TemporaryDirectory() as name:
        controller = kind(Path(name), tasks, real)
        before, _ = memory()
        begin = time.monotonic()
        controller.launch()
        cpu_launched = cpu()
        while controller.running < tasks:
            assert time.monotonic() < begin + DEADLINE_SEC, f"only {controller.running} tasks have started"
            controller.turn(1.0)
        took, cpu_all, (_, most) = time.monotonic() - begin, cpu(), memory()
        end = time.monotonic() + (IDLE_SEC if tasks > 10 else 0.0)
        while (left := end - time.monotonic()) > 0:
            controller.turn(left)
        cpu_idle, (idle, _) = cpu(), memory()
        controller.close()
    of_agents = list(map(controller.agents.cpu.__getitem__, sorted(controller.agents.cpu)))
    return {
        "until all commands run, s": took,
        "CPU time of the controller, s": cpu_all - cpu_launched,
        "memory for each task, at most, KiB": (most - before) / tasks,
        "the same when all is quiet, KiB": (idle - before) / tasks,
        "CPU of the controller then, %": (cpu_idle - cpu_all) / IDLE_SEC * 100,
        "CPU time of a real agent, s": sum(of_agents[:real]) / real,
        "CPU time of all simulated agents, s": sum(of_agents[real:]),
    }


def main(tasks: int, real: int) -> None:
    """Measure each in a process of its own, and print."""
    found = []
    for kind in ("LinkAlone", "WholeBackend"):
        argv = [sys.executable, __file__, "--measure", kind, str(tasks), str(real)]
        found.append(json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout))
    print(f"{tasks} tasks, {real} of them with real agents")
    print(f"{'':<36}{'link alone':>12}{'backend':>12}")
    for what, value in found[0].items():
        print(f"{what:<36}{value:>12.2f}{found[1][what]:>12.2f}")


if __name__ == "__main__":
    raise_limit()
    if sys.argv[1:2] == ["--simulate"]:
        simulate(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--measure"]:
        kinds = {"LinkAlone": LinkAlone, "WholeBackend": WholeBackend}
        print(json.dumps(measure(kinds[sys.argv[2]], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        given = [*map(int, sys.argv[1:]), *[1000, 50][len(sys.argv) - 1 :]]
        main(given[0], min(given))
