"""Measures the link of a job with many tasks on a cluster: one controller's end, and an agent for each task.

    python benchmarks/link.py [TASKS [REAL]]

REAL (50) of the TASKS (1000) are real agents with a supervisor around `true`; the others are simulated in one process
by the agents' own protocol code, which answers as an agent would. All begin at once. The controller lets each take a
port, waits until all have (the barrier), sends every task its TaskSpec with the addresses of all tasks, and hears that
its command runs. Memory is that of the controller's process, beyond what it has before anybody connects.
"""

from __future__ import annotations

import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import re2

import kedge
from kedge.contract import TaskSpec
from kedge.engines.base import Task
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import Joined, Message
from kedge.jobs import link_keys
from kedge.link import messages
from kedge.link.frames import LinkFrame
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders
from kedge.open_files import raise_limit
from kedge.runtime.agent.connection import AgentConnection, AgentFacts

AGENT = Path(kedge.__file__).parent / "runtime" / "agent"
SITE = str(Path(re2.__file__).parents[1])
DEADLINE_SEC = 600.0
IDLE_SEC = 25.0  # more than the time between two heartbeats


class Controller:
    """The controller's part: it counts what it hears, and answers."""

    def __init__(self, folder: Path, tasks: int) -> None:
        self.folder, self.tasks = folder, tasks
        self.keys = link_keys.made()
        self.server = LinkServer(self.keys, lambda *_who: True, "benchmark")
        self.joined, self.ports, self.running = 0, dict[str, dict[str, list[int]]](), set[Task]()
        self.times: dict[str, float] = {}
        self._begin = time.monotonic()

    def until_all_run(self) -> None:
        while len(self.running) < self.tasks:
            assert time.monotonic() < self._begin + DEADLINE_SEC, f"only {len(self.running)} tasks have started"
            self.turn(1.0)

    def turn(self, longest: float) -> None:
        wait = min(longest, max(0.0, self.server.due - time.monotonic()))
        select.select([self.server.fileno()], [], [], wait)
        for update in self.server.poll():
            if isinstance(update, Joined):
                self.joined += 1
                self.server.send(update.task, messages.RESERVE, {"ports": {"http": 1}})
                self._note("joined", self.joined == self.tasks)
            elif isinstance(update, Message) and update.kind == messages.RESERVED:
                self.ports[str(update.task)] = update.header["ports"]
                self._open_gate(len(self.ports) == self.tasks)
            elif isinstance(update, Message) and update.header.get("line", {}).get("event") == "running":
                self.running.add(update.task)
                self._note("running", len(self.running) == self.tasks)

    def _note(self, what: str, reached: bool) -> None:
        if reached:
            self.times[what] = time.monotonic() - self._begin

    def _open_gate(self, reached: bool) -> None:
        self._note("reserved", reached)
        if reached:
            hosts = [{"host": "127.0.0.1", "ports": self.ports[f"worker:{n}"]} for n in range(self.tasks)]
            for number in range(self.tasks):
                self.server.send(Task("worker", number), messages.START, self._start(number, {"worker": hosts}))

    def _start(self, number: int, roles: dict[str, Any]) -> dict[str, Any]:
        spec = TaskSpec(
            user="me", job="benchmark", job_id="me~benchmark", role="worker", task_index=number, job_attempt=0,
            task_attempt=0, uid="1", folder=f"{self.folder}/{number}", workdir=f"{self.folder}/{number}/work",
            environment={}, command=("true",), steps=(), host="127.0.0.1", ports=self.ports[f"worker:{number}"],
            peers_file="",
        )  # fmt: skip
        return {"task_attempt": 0, "spec": spec.to_json(), "peers": {"roles": roles}, "secrets": None}

    def orders(self) -> AgentOrders:
        tokens = [task_token(self.keys, 0, "worker", number) for number in range(self.tasks)]
        return AgentOrders(
            ["127.0.0.1"], self.server.port, self.keys.certificate, "benchmark", None, 0, "worker", tokens
        )


class SimulatedAgent:
    """What an agent says, without anything that it would do."""

    def __init__(self, orders: AgentOrders, number: int) -> None:
        self.finished = False
        facts = AgentFacts(number, "node", ["127.0.0.1"], "boot", os.getpid())
        self.link = AgentConnection(orders, facts, dict)

    def turn(self) -> None:
        for frame in self.link.poll():
            self._obey(frame)

    def _obey(self, frame: LinkFrame) -> None:
        if frame.kind == messages.RESERVE:
            self.link.send(messages.RESERVED, {"ports": {"http": [20000]}})
        elif frame.kind == messages.START:
            for event in ("starting", "running"):
                self.link.send(messages.EVENT, {"task_attempt": 0, "line": {"event": event, "time": "2026-01-01"}})
        elif frame.kind == messages.FINISH:
            self.finished = True
            self.link.close()


def simulate(first: int) -> None:
    """Be all agents from the task `first` on. Orders come as an agent's do."""
    raise_limit()
    orders = AgentOrders.from_line(sys.stdin.buffer.readline())
    agents = [SimulatedAgent(orders, number) for number in range(first, len(orders.tokens))]
    epoll, by_fd = select.epoll(), {agent.link.fileno(): agent for agent in agents}
    for fd in by_fd:
        epoll.register(fd, select.EPOLLIN)
    ready = agents
    while by_fd:
        for agent in ready:
            agent.turn()
            if agent.finished:
                by_fd = {fd: other for fd, other in by_fd.items() if other is not agent}
        found = [by_fd[fd] for fd, _ in epoll.poll(0.05) if fd in by_fd]
        now = time.monotonic()
        ready = [*found, *(agent for agent in by_fd.values() if agent.link.due <= now and agent not in found)]


def started(controller: Controller, real: int) -> list[subprocess.Popen[bytes]]:
    """Start all agents."""
    line, node = controller.orders().line(), str(controller.folder)
    argv = [sys.executable, "-I", "-S", str(AGENT), "--index-variable", "INDEX", "--node-variable", "NODE"]
    commands = [([*argv, "--site", SITE], str(number)) for number in range(real)]
    if real < controller.tasks:
        commands.append(([sys.executable, __file__, "--simulate", str(real)], ""))
    processes = []
    for command, index in commands:
        environment = {**os.environ, "INDEX": index, "NODE": "node", "TMPDIR": node}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)
        assert process.stdin
        with process.stdin as stdin:
            stdin.write(line)
        processes.append(process)
    return processes


def memory() -> tuple[int, int]:
    """KiB of this process: now, and at most so far."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]), int(lines["VmHWM"].split()[0])


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(tasks: int, real: int) -> None:
    """Measure and print."""
    raise_limit()
    with tempfile.TemporaryDirectory() as name:
        controller = Controller(Path(name), tasks)
        before, _ = memory()
        processes = started(controller, real)
        cpu_started = cpu()
        controller.until_all_run()
        cpu_all, (_, most) = cpu(), memory()
        end = time.monotonic() + (IDLE_SEC if tasks > 10 else 0.0)
        while time.monotonic() < end:
            controller.turn(end - time.monotonic())
        cpu_idle, (idle, _) = cpu(), memory()
        for number in range(tasks):
            controller.server.send(Task("worker", number), messages.FINISH, {})
        while any(process.poll() is None for process in processes):
            controller.turn(0.05)
    times = controller.times
    print(f"{tasks} tasks on one controller, {real} of them with real agents")
    print(f"all agents connected after {times['joined']:.2f} s, all with ports after {times['reserved']:.2f} s")
    print(f"all commands run after {times['running']:.2f} s; CPU time of the controller {cpu_all - cpu_started:.2f} s")
    print(
        f"memory for each task: {(most - before) / tasks:.0f} KiB at most, {(idle - before) / tasks:.0f} KiB when idle"
    )
    if tasks > 10:
        print(f"CPU time of the controller when idle: {(cpu_idle - cpu_all) / IDLE_SEC * 100:.2f} % of a processor")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--simulate"]:
        simulate(int(sys.argv[2]))
    else:
        given = [*map(int, sys.argv[1:]), *[1000, 50][len(sys.argv) - 1 :]]
        main(given[0], min(given))
