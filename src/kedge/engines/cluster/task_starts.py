"""Starts tasks once all are ready: makes their folders, and sends each agent what its task needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.contract import CANNOT_START, DISK_FULL, Report
from kedge.engines.cluster import barrier, task_ends
from kedge.engines.cluster.gate import Gate
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.member import Member
from kedge.engines.cluster.mirrors import Mirrors
from kedge.engines.cluster.peers_record import PeersRecord
from kedge.engines.cluster.placement import ClusterPlaces
from kedge.engines.controller import time_limits
from kedge.engines.controller.reports import Launch
from kedge.errors import DiskFull
from kedge.link import messages
from kedge.link.frames import HEADER_LIMIT, BadFrame, SharedValue
from kedge.resolve.model import Secrets

_PARTS = {
    "commands and environment": "spec", "the addresses and ports of all tasks": "peers",
    "the values of secrets": "secrets", "rules and exit codes": "files",
}  # fmt: skip


class TaskStarts:
    """The starts of one run. `mirrors` if the nodes do not share the run folder: then the agents get the files, too,
    that the TaskSpec names."""

    def __init__(
        self, server: LinkServer, places: ClusterPlaces, record: PeersRecord, mirrors: Mirrors | None, secrets: Secrets
    ) -> None:
        self._server, self._places, self._record, self._mirrors = server, places, record, mirrors
        values = {"document": secrets.document, "texts": secrets.texts}
        self._secrets = SharedValue(values) if secrets.texts else None

    def send(self, member: Member, launch: Launch, gate: Gate) -> Report | None:
        """Let the agent start this task attempt. Returns the report of one that cannot start: its folder could not be
        made, or what its agent needs is too large for a message."""
        assert gate.peers is not None
        gate.passed(self._record.updated(launch.job_attempt, gate.peers, member))
        host, ports = barrier.own(gate.peers, member.task)
        limits = time_limits.left(member.deadlines)
        try:
            spec = self._places.write_spec(member.task, launch.job_attempt, launch.task_attempt, host, ports, limits)
            files = self._places.files() if self._mirrors else {}
        except (OSError, DiskFull) as error:
            reason = DISK_FULL if isinstance(error, DiskFull) else CANNOT_START
            return task_ends.not_started(launch, reason, f"the task's folder could not be made: {error}")
        if self._mirrors:
            self._mirrors.forget(member.task)  # the folder is a new one
        header = {"task_attempt": launch.task_attempt, "spec": spec.to_json(), "peers": gate.shared()}
        header |= {"files": files, "secrets": self._secrets}
        try:
            self._server.send(member.task, messages.START, header)
        except BadFrame:
            return task_ends.of_too_large_start(launch, _sizes(header))
        member.sent = True
        gate.waits.over(member)
        return None


def _sizes(start: Mapping[str, Any]) -> str:
    sizes = {what: len(SharedValue(start[name]).text) for what, name in _PARTS.items() if start[name]}
    named = [f"{what} take {size / (1 << 20):.1f} MiB" for what, size in sizes.items() if size > HEADER_LIMIT / 20]
    return f"{', '.join(named)}; the limit is {HEADER_LIMIT >> 20} MiB"
