"""The barrier of a job attempt: no task starts before all have reported and hold their ports; then all get their
peers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kedge import untrusted
from kedge.contract import duration_text
from kedge.engines.base import Task
from kedge.engines.cluster.addresses import reachable
from kedge.engines.cluster.member import Member, Ports, ports_of
from kedge.plan.model import Plan
from kedge.runs import events
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

_LARGEST = 64 << 20  # bytes of a file of peers
_MOST_NAMED = 8
_MOST_REASONS = 3  # in a note
_OWN_WORD = re.compile(r"\S*\d\S*")  # names of pods and nodes, numbers of tasks

Peers = Mapping[str, Any]  # the content of peers.json


def peers_of(plan: Plan, members: Mapping[Task, Member]) -> Peers:
    """The addresses and ports of all tasks, which are all ready."""
    roles = {
        role.name: [_peer(members[Task(role.name, index)]) for index in range(role.instances)] for role in plan.roles
    }
    return {"roles": roles}


def _peer(member: Member) -> dict[str, Any]:
    return {"host": member.address, "ports": member.ports}


def moved(peers: Peers, member: Member) -> Peers:
    """These peers with a task that is somewhere else now."""
    own = list(peers["roles"][member.task.role])
    own[member.task.task_index] = _peer(member)
    return {"roles": {**peers["roles"], member.task.role: own}}


def own(peers: Peers, task: Task) -> tuple[str, Ports]:
    """The address and the ports of one of them."""
    found = peers["roles"][task.role][task.task_index]
    return found["host"], found["ports"]


def read_peers(plan: Plan, run: Run, attempt: int) -> Peers | None:
    """What an earlier controller of the run has written at this barrier; None if not all tasks were ready, or
    the file is damaged, since tasks can write to it."""
    path = run.peers(attempt)
    try:
        return _checked(plan, untrusted.read_json(path.parent, path.name, _LARGEST))
    except (OSError, ValueError):
        return None


def recorded_peers(plan: Plan, run: Run, attempt: int) -> Peers | None:
    """The same from the events of an earlier controller, which tasks cannot write to."""
    passed = (one for one in events.read(run.events) if one["event"] == JobEvent.BARRIER_PASSED)
    found = [one.get("peers") for one in passed if one.get("attempt") == attempt]
    return _checked(plan, found[-1]) if found else None


def _checked(plan: Plan, found: Any) -> Peers | None:
    try:
        roles = found["roles"]
        complete = all(len(roles[role.name]) == role.instances for role in plan.roles)
        fits = (_fits(each, ports_of(each["ports"], role)) for role in plan.roles for each in roles[role.name])
        return {"roles": roles} if complete and all(fits) else None
    except (KeyError, TypeError, AttributeError):
        return None


def _fits(peer: Mapping[str, Any], ports: Ports | None) -> bool:
    return ports is not None and isinstance(peer["host"], str)


def choose_addresses(members: Collection[Member]) -> list[Member]:
    """Let each task have the first address of its node that is no other machine's: the bridges of containers and of
    virtual machines have the same one everywhere. Returns the tasks whose address is another one now."""
    machines: dict[str, str] = {}
    shared = {
        address
        for member in members
        for address in member.addresses
        if machines.setdefault(address, member.machine) != member.machine
    }
    changed = []
    for member in members:
        own = reachable([address for address in member.addresses if address not in shared]) or member.address
        if own != member.address:
            member.address = own
            changed.append(member)
    return changed


def unreachable_peers(members: Iterable[Member]) -> list[Member]:
    """Of tasks on several nodes, those with an address that only their own node can reach."""
    found = list(members)
    several = len({member.node for member in found}) > 1
    # Nodes that are one machine reach each other by its own address.
    only_loopback = len({member.address for member in found}) == 1
    return [one for one in found if not reachable([one.address])] if several and not only_loopback else []


def failure(members: Collection[Member], whereabouts: Callable[[Task], str], waited_sec: float | None = None) -> str:
    """Why the barrier has failed: how many tasks are not ready, which, and what is known about their places.
    `waited_sec`: the time that has passed; None if the barrier can never be passed."""
    missing = [member for member in members if not member.is_ready]
    count = f"{len(missing)} of {len(members)} {'task' if len(members) == 1 else 'tasks'}"
    when = f"after {duration_text(waited_sec)}, " if waited_sec is not None else ""
    return f"the tasks could not start: {when}{count} {_are(missing)} not ready: {_named(missing, whereabouts)}"


def _are(missing: Sequence[Member]) -> str:
    return "is" if len(missing) == 1 else "are"


def _named(missing: Sequence[Member], whereabouts: Callable[[Task], str]) -> str:
    named = "; ".join(_known(member, whereabouts) for member in missing[:_MOST_NAMED])
    return f"{named}; and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else named


def _known(member: Member, whereabouts: Callable[[Task], str]) -> str:
    if member.gone:
        return f"{member.where()} has ended ({member.gone.text or member.gone.reason})"
    if member.problem:
        return f"{member.where()}: {member.problem}"
    known = whereabouts(member.task)
    said = f" ({known})" if known else ""
    return f"{member.task} {'is not ready yet' if member.agent else 'has not reported'}{said}"


def missing(members: Collection[Member], whereabouts: Callable[[Task], str]) -> str:
    """Which tasks are not ready at a barrier that takes long, for a note: one task for each reason."""
    found = [member for member in members if not member.is_ready]
    count = f"{len(found)} of {len(members)} {'task' if len(members) == 1 else 'tasks'}"
    reasons: dict[str, list[str]] = {}
    for known in (_known(member, whereabouts) for member in found):
        reasons.setdefault(_OWN_WORD.sub("", known), []).append(known)
    same = [f"{first}, and {len(rest)} more like it" if rest else first for first, *rest in reasons.values()]
    more = [f"and {len(same) - _MOST_REASONS} other reasons"] if len(same) > _MOST_REASONS else []
    return f"{count} {_are(found)} not ready yet: {'; '.join([*same[:_MOST_REASONS], *more])}"
