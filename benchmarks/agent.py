"""Measures what kedge itself takes of a node beside one task on a cluster: the time until its agent has joined, the CPU
time of that, the time until the user's command runs, and the memory of each process while it does.

    python benchmarks/agent.py [ROUNDS]

The agents are started from a bundle, which is built before, one after another; the controller's end of the link is in
this process. Medians. CPU time is what the kernel counts for the processes, so other work on the machine hardly changes
it. Memory is PSS: a page that several processes share counts in parts. The command is `sleep`.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kedge.bundle import cache, layers
from kedge.contract import TaskSpec
from kedge.engines.base import Task
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import Joined, LinkUpdate, Message
from kedge.jobs import link_keys
from kedge.link import messages
from kedge.link.keys import task_token
from kedge.link.launch import AgentOrders

DEADLINE_SEC = 60.0
SETTLED_SEC = 0.2  # until the processes sleep
TASK = Task("worker", 0)


class Node:
    """One agent, started by the program `under` if there is one, and the controller's end of its link."""

    def __init__(self, bundle: Path, folder: Path, number: int, under: tuple[str, ...] = ()) -> None:
        self.folder, self._attempt, self._keys = folder, number, link_keys.made()
        self.server = LinkServer(self._keys, lambda *_who: True, "benchmark")
        token = task_token(self._keys, number, *TASK)
        where = (["127.0.0.1"], self.server.port, self._keys.certificate)
        (folder / "run" / "cluster").mkdir(parents=True)
        address = folder / "run" / "cluster" / "address.json"
        address.write_text(json.dumps({"addresses": where[0], "port": where[1]}))
        orders = AgentOrders(*where, "benchmark", str(address), number, TASK.role, [token]).line()
        told = os.memfd_create("orders")
        os.write(told, orders)
        os.lseek(told, 0, os.SEEK_SET)
        argv = [*under, str(bundle / "agent"), "--index-variable", "INDEX", "--node-variable", "NODE"]
        variables = {**os.environ, "INDEX": "0", "NODE": "node", "TMPDIR": str(folder)}
        self.began = time.perf_counter()
        self.keeper = os.posix_spawn(argv[0], argv, variables, file_actions=[(os.POSIX_SPAWN_DUP2, told, 0)])
        os.close(told)

    def until(self, wanted: Callable[[LinkUpdate], bool]) -> LinkUpdate:
        """Serve the link until something happens."""
        end = time.monotonic() + DEADLINE_SEC
        while time.monotonic() < end:
            select.select([self.server.fileno()], [], [], max(0.0, min(self.server.due - time.monotonic(), 1.0)))
            if found := [update for update in self.server.poll() if wanted(update)]:
                return found[0]
        sys.exit(f"nothing has come for {DEADLINE_SEC:g} s")

    def start(self, command: str = "exec sleep 100") -> None:
        """Send the START of a task."""
        folder = f"{self.folder}/run/task"
        spec = TaskSpec(
            user="me", job="benchmark", job_id="me~benchmark", role=TASK.role, task_index=0, job_attempt=self._attempt,
            task_attempt=0, uid="1", folder=folder, workdir=f"{folder}/work", environment={},
            command=(command,), steps=(), host="127.0.0.1", ports={}, peers_file="",
        )  # fmt: skip
        peers = {"roles": {TASK.role: [{"host": "127.0.0.1", "ports": {}}]}}
        header = {"task_attempt": 0, "spec": spec.to_json(), "peers": peers, "secrets": None}
        self.server.send(TASK, messages.START, header)


def measure(bundle: Path, folder: Path, number: int) -> dict[str, float]:
    """The figures of one agent."""
    node = Node(bundle, folder, number)
    joined = node.until(lambda update: isinstance(update, Joined))
    assert isinstance(joined, Joined)
    agent = joined.hello.pid
    until_joined, cpu_joined = time.perf_counter() - node.began, cpu(node.keeper) + cpu(agent)
    node.server.send(TASK, messages.RESERVE, {"ports": {}})
    node.until(lambda update: isinstance(update, Message) and update.kind == messages.RESERVED)
    begin, before = time.perf_counter(), cpu(node.keeper) + cpu(agent)
    node.start()
    node.until(lambda update: isinstance(update, Message) and update.header.get("line", {}).get("event") == "running")
    until_running = time.perf_counter() - begin
    (supervisor,) = (pid for pid in children(node.keeper) if pid != agent)
    cpu_start = cpu(node.keeper) + cpu(agent) - before
    cpu_supervisor = cpu(supervisor)
    time.sleep(SETTLED_SEC)
    used = {name: memory(pid) for name, pid in (("keeper", node.keeper), ("agent", agent), ("supervisor", supervisor))}
    node.server.send(TASK, messages.FINISH, {})
    end(node)
    return {
        "until it has joined, ms": 1e3 * until_joined,
        "CPU time of that, ms": 1e3 * cpu_joined,
        "from START until the command runs, ms": 1e3 * until_running,
        "CPU time of keeper and agent for that, ms": 1e3 * cpu_start,
        "CPU time of the supervisor, ms": 1e3 * cpu_supervisor,
        **{f"memory of the {name}, MB": size for name, size in used.items()},
        "memory of all three, MB": sum(used.values()),
    }


def end(node: Node) -> None:
    """Wait until the keeper has ended."""
    while not os.waitpid(node.keeper, os.WNOHANG)[0]:
        select.select([node.server.fileno()], [], [], 0.01)
        node.server.poll()
    node.server.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu(pid: int) -> float:
    """CPU seconds of a process so far. The kernel counts them in nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory(pid: int) -> float:
    """The proportional share of memory (PSS) of a process, in MB."""
    lines = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return int(lines["Pss"].split()[0]) * 1024 / 1e6


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(cache.ensure((layers.CORE, layers.NET)))
        for number in range(rounds):
            found.append(measure(bundle, Path(folder, str(number)), number))
    for name in found[0]:
        print(f"{name:<44}{statistics.median(one[name] for one in found):>8.1f}")


if __name__ == "__main__":
    main()
