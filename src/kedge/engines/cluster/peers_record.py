"""The addresses and ports of all tasks of a job attempt, which outlive a controller."""

from __future__ import annotations

import time
from datetime import datetime

from kedge.engines.base import Task
from kedge.engines.cluster import barrier
from kedge.engines.cluster.barrier import Peers
from kedge.engines.cluster.member import Member
from kedge.engines.cluster.placement import ClusterPlaces
from kedge.engines.controller.states import Emit
from kedge.plan.model import Plan
from kedge.runs import events, status
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent


class PeersRecord:
    """A file in the run folder, which is also the record that the barrier was passed. With `in_events` the events have
    it, too: where no folder is shared, another controller may have those alone."""

    def __init__(self, plan: Plan, run: Run, places: ClusterPlaces, emit: Emit, *, in_events: bool) -> None:
        self._plan, self._run, self._places, self._emit, self._in_events = plan, run, places, emit, in_events

    def begin(self, attempt: int, *, own_places: bool) -> None:
        """Record that the tasks of an attempt wait for each other."""
        self._emit(JobEvent.BARRIER_BEGUN, attempt=attempt, own_places=own_places)

    def waited_sec(self, attempt: int) -> float:
        """For how long the tasks of an attempt have waited for each other already, without the time in a queue; 0 if
        that is not known."""
        began, stood = "", 0.0
        for event in events.read(self._run.events):
            if event["event"] == JobEvent.BARRIER_BEGUN and event.get("attempt") == attempt:
                began, stood = event["time"], 0.0
            elif event["event"] == JobEvent.TIME_STOOD_STILL:
                stood += event.get("waited_sec", 0.0)
        try:
            return max(0.0, time.time() - datetime.fromisoformat(began).timestamp() - stood)
        except (TypeError, ValueError):
            return 0.0

    def nodes(self) -> dict[Task, str]:
        """The node of each task's latest attempt; an empty text if its agent has not reported from one."""
        found = status.fold(events.read(self._run.events)).tasks
        return {Task(task.role, task.index): task.node or "" for task in found}

    def find(self, attempt: int) -> Peers | None:
        """What an earlier controller has recorded; None if not all tasks were ready."""
        if peers := barrier.read_peers(self._plan, self._run, attempt):
            return peers
        if peers := barrier.recorded_peers(self._plan, self._run, attempt):
            self._places.write_peers(attempt, peers)
        return peers

    def write(self, attempt: int, peers: Peers) -> Peers:
        """Record that all tasks are ready."""
        self._emit(JobEvent.BARRIER_PASSED, attempt=attempt, **({"peers": peers} if self._in_events else {}))
        self._places.write_peers(attempt, peers)
        return peers

    def updated(self, attempt: int, peers: Peers, member: Member) -> Peers:
        """The peers with those of a task whose further attempt is in another place, recorded if that is new. Only tasks
        that start from now on learn of it."""
        if not member.launched_for or member.ports is None:
            return peers
        if barrier.own(peers, member.task) == (member.address, member.ports):
            return peers
        moved = barrier.moved(peers, member)
        self._places.write_peers(attempt, moved)
        return moved
