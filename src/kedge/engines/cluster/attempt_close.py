"""The end of a job attempt: its agents clean up and leave."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from kedge.engines.base import Task
from kedge.engines.cluster.base import Cluster
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.link_updates import Joined, LinkUpdate, Lost, OwnerRequest
from kedge.engines.cluster.member import Member
from kedge.link import messages


def finish_agents(
    server: LinkServer,
    cluster: Cluster,
    members: Sequence[Member],
    patience_sec: float,
    take_request: Callable[[OwnerRequest], None],
) -> None:
    """Tell the agents that the job attempt is over, and wait until they have gone, at most for so long. Silent agents
    are not waited for; they get the message when they come back. Requests of the owner that come meanwhile are
    passed on."""
    there = {member.task for member in members if member.agent and member.silent_since is None and not member.gone}
    for member in members:
        if member.agent:
            server.send(member.task, messages.FINISH, {})
    end = time.monotonic() + patience_sec
    poller = select.poll()
    poller.register(server.fileno(), select.POLLIN)
    poller.register(cluster.fileno(), select.POLLIN)
    while there and (left := end - time.monotonic()) > 0:
        due = min(server.due, cluster.due) - time.monotonic()
        poller.poll(1000 * max(0.0, min(left, due)))
        for update in server.poll():
            if isinstance(update, OwnerRequest):
                take_request(update)
            else:
                _follow(there, update)
        there -= {gone.task for gone in cluster.poll()}


def _follow(there: set[Task], update: LinkUpdate) -> None:
    if isinstance(update, Lost):
        there.discard(update.task)
    elif isinstance(update, Joined):
        there.add(update.task)
