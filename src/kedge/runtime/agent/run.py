"""The loop of the agent, below its keeper."""

from __future__ import annotations

import os
import time

from kedge.link.frames import LinkFrame
from kedge.runtime.agent import addresses
from kedge.runtime.agent.agent import Agent
from kedge.runtime.agent.connection import AgentConnection, AgentFacts
from kedge.runtime.agent.keeper import GIVEN_UP, AgentTask, say
from kedge.runtime.agent.node_folders import NodeFolders
from kedge.runtime.process.loop import READABLE, Loop

# Without a controller: an agent with nothing to do gives its place back after an hour. One that has the only copy of
# how its task has ended keeps it for a day, the time in which somebody will see to a cluster without room for a driver.
ORPHAN_SEC, HEIR_SEC = 3600.0, 86_400.0


def run(task: AgentTask, folders: NodeFolders, told: int, *, restarted: bool) -> int:
    """Serve until the controller lets the agent finish; its exit code."""
    loop, orders = Loop(), task.orders
    facts = AgentFacts(
        task.task_index, task.node, addresses.of_node(orders.addresses), addresses.boot_id(), os.getpid()
    )
    link = AgentConnection(orders, facts, lambda: agent.told_state())
    agent = _agent(task, folders, loop, link)
    keeper = KeeperLines(told, agent)
    loop.watch(told, READABLE, keeper.read)
    if restarted:
        agent.take_over()
        keeper.read()
        agent.check_taken_over()
    loop.watch(link.fileno(), READABLE, lambda _events: None)  # it is polled in every turn
    heard, controller = time.monotonic(), ""
    while agent.exit_code is None:
        for frame in link.poll():
            _obey(agent, frame)
        if link.controller != controller:
            controller = link.controller
            agent.another_controller()
        agent.send_files()
        if not link.unacked:
            agent.all_is_safe()
        now = time.monotonic()
        heard = now if link.connected or agent.state.running else heard
        patience = HEIR_SEC if agent.has_untold_end else ORPHAN_SEC
        if now > heard + patience:
            say(f"no connection to the controller for {patience:g} s: {link.error}")
            agent.exit_code = GIVEN_UP
        if agent.exit_code is None:
            due = min(link.due, agent.due, heard + patience + 1)
            loop.turn(due)
            heard += max(0.0, time.monotonic() - max(now, due))  # the whole job was suspended for so long
    link.close()
    return agent.exit_code


def _agent(task: AgentTask, folders: NodeFolders, loop: Loop, link: AgentConnection) -> Agent:
    if task.pod is None:
        return Agent(task, folders, loop, link.send, lambda: link.room)
    from kedge.runtime.agent.pod_agent import PodAgent

    return PodAgent(task, folders, loop, link.send, lambda: link.room)


class KeeperLines:
    """Reads the lines of the keeper."""

    def __init__(self, fd: int, agent: Agent) -> None:
        self._fd, self._agent = fd, agent
        self._partial = b""

    def read(self, _events: int = 0) -> None:
        """Take all the lines that are there."""
        try:
            while data := os.read(self._fd, 1 << 16):
                *lines, self._partial = (self._partial + data).split(b"\n")
                for line in lines:
                    self._agent.told(line.decode())
        except BlockingIOError:
            return
        self._agent.keeper_lost()


def _obey(agent: Agent, frame: LinkFrame) -> None:
    try:
        agent.command(frame)
    except (KeyError, TypeError, ValueError) as error:
        say(f"the controller sent an incomplete {frame.kind}: {error!r}")
