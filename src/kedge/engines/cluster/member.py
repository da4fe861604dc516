"""What the controller knows of one task of the job attempt, and of its agent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from kedge.contract import duration_text
from kedge.engines.base import Deadline, Task
from kedge.engines.cluster.addresses import reachable
from kedge.engines.cluster.agent_messages import LONGEST_TEXT, AgentEnd
from kedge.engines.cluster.base import Gone
from kedge.engines.controller.reports import Launch
from kedge.link.messages import Hello
from kedge.plan.model import RolePlan
from kedge.quick_dataclasses import dataclass

Ports = dict[str, list[int]]
_MOST_PORT = 65_535


@dataclass(slots=True)
class Member:
    """One task. Times are from time.monotonic().

    `agent` is the id of its agent; empty until that has reported to this controller. `state` is what it said then:
    see link.messages.Hello. So are `addresses`, those of its node; `address` is the one for its peers. `machine` is
    the same for nodes that are one machine. `ports` are None until the agent holds them; `problem` is why it
    cannot. `launch` is the task attempt in progress, if any: it was started by the controller's loop and has not
    ended. It is `sent` once its agent has it; `pending` is what to tell an agent that has not come back to this
    controller. `silent_since`: since when the agent has been silent; None while it is not. `kill_at`: when the
    cluster kills it, and `kill_by`: when at the latest, if its agent still sends files. `report_by`: how long to
    wait for a report after the cluster has reported that it is `gone`. `end` is what its
    agent has reported about the end of the supervisor, and `word_by` how long the cluster has to report on that, too.

    `launched_for` is the task attempt for which the agent was launched that is wanted now: 0 where it serves all of
    them. `is_launched`: this controller has seen to that agent; `is_fresh`: it was the first to do so, so that nothing
    of the attempt runs before its agent is there; `place_by` is how long it has for that.
    """

    task: Task
    agent: str = ""
    node: str = ""
    address: str = ""
    addresses: Sequence[str] = ()
    machine: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    ports: Ports | None = None
    problem: str = ""
    launch: Launch | None = None
    deadlines: tuple[Deadline, ...] = ()
    sent: bool = False
    pending: list[str] = field(default_factory=list)
    stopping: bool = False
    killed: bool = False
    kill_at: float | None = None
    kill_by: float = 0.0
    silent_since: float | None = None
    unreachable: bool = False
    gone: Gone | None = None
    report_by: float = 0.0
    end: AgentEnd | None = None
    word_by: float = 0.0
    launched_for: int = 0
    is_launched: bool = False
    is_fresh: bool = False
    place_by: float = 0.0

    def adopted(self, now: float, node: str, task_attempt: int) -> None:
        """An earlier controller has started it, there; its agent has not reported to this one yet, and may never."""
        self.silent_since, self.node, self.launched_for = now, node, task_attempt

    def met(self, hello: Hello, address: str = "") -> bool:
        """Its agent has reported from a node. `address` is the one that its peers know already. Returns whether that
        tells where the task is, or that it has moved."""
        self.state = hello.state
        before = self.node, self.address
        self.addresses, self.machine = hello.addresses, hello.boot_id or hello.node
        self.agent, self.node, self.address = hello.agent, hello.node, address or reachable(hello.addresses)
        if not self.address and hello.addresses:
            self.address = hello.addresses[0]  # of this machine only: enough if all tasks are there
        return before != (self.node, self.address)

    def reserved(self, said: Mapping[str, Any], role: RolePlan) -> None:
        """Its agent holds the ports that it was asked for, or cannot."""
        ports = ports_of(said.get("ports"), role)
        if ports is None:
            self.problem = str(said.get("error") or "its agent could not reserve its ports")[:LONGEST_TEXT]
        else:
            self.ports = ports

    def begin(self, launch: Launch, deadlines: tuple[Deadline, ...] = ()) -> None:
        """A task attempt is in progress from now on."""
        self.launch, self.deadlines = launch, deadlines
        self.sent = self.stopping = self.killed = False
        self.kill_at, self.pending, self.end = None, [], None

    def renew(self, task_attempt: int) -> None:
        """Another agent comes for a further attempt of the task, in another place."""
        self.launched_for, self.is_fresh = task_attempt, True
        self.agent, self.node, self.address, self.state, self.ports, self.problem = "", "", "", {}, None, ""
        self.gone, self.silent_since = None, None

    @property
    def is_ready(self) -> bool:
        """Whether it can take part in the barrier: its agent is there and holds its ports."""
        return bool(self.agent) and self.ports is not None and not self.problem and self.gone is None

    @property
    def lacks_ports(self) -> bool:
        """Whether its agent, which came for this task attempt alone, holds no ports yet."""
        return self.launched_for > 0 and self.ports is None

    def kill(self, now: float, kill_sec: float, flush_sec: float) -> float:
        """Its agent is told to kill it. Returns when the cluster does, see `kill_at`."""
        self.killed, self.kill_by = True, now + flush_sec
        self.kill_at = now + (0.0 if self.silent_since else kill_sec)
        return self.kill_at

    def silence_text(self, seconds: float) -> str:
        """Why it counts as unreachable, for people."""
        where = f" on node {self.node}" if self.node else ""
        return f"no message from it for {duration_text(round(seconds))}; it may still be running{where}"

    def silence(self) -> float:
        """For how many seconds its agent has been silent."""
        return 0.0 if self.silent_since is None else time.monotonic() - self.silent_since

    def where(self) -> str:
        """Its name with its node, for messages."""
        return f"{self.task} on node {self.node}" if self.node else str(self.task)


def ports_of(value: Any, role: RolePlan) -> Ports | None:
    """The ports in a message of an agent; None if they are not as many as the role requests of each label."""
    wanted = role.resources.ports
    if not isinstance(value, dict) or value.keys() != wanted.keys():
        return None
    for label, numbers in value.items():
        if not isinstance(numbers, list) or len(numbers) != wanted[label]:
            return None
        if not all(type(number) is int and 0 < number <= _MOST_PORT for number in numbers):
            return None
    return value
