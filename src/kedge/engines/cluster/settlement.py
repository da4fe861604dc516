"""The end of a task attempt, as reported by its agent, by the cluster, or by both, in any order."""

from __future__ import annotations

from kedge.contract import Report
from kedge.diagnose.model import Diagnosis
from kedge.engines.cluster import task_ends
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.cluster.gate import Gate
from kedge.engines.cluster.member import Member
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch

_NO_CAUSE = (GoneKind.ENDED, GoneKind.NOT_STARTED)


def waits_until(member: Member, found: Report | None, *, flushing: bool) -> float:
    """Until when to wait for more, by time.monotonic(); 0 if all is known. `found` is the report of its supervisor.
    `flushing`: files of the task may still come."""
    if not member.end:
        return member.report_by if member.sent and (found is None or flushing) else 0.0
    open_ = found is None or _is_strange_stop(found, member)
    return member.word_by if open_ and not member.gone else 0.0


def report(member: Member, launch: Launch, found: Report | None, *, own_place: bool) -> Report:
    """The report that counts. `own_place`: the task attempt had an agent and a place of its own, and the cluster's
    report explains a stop that was not asked for here. What the task had failed of before is its own."""
    gone, end = member.gone, member.end
    if found and not (own_place and gone and _explains(gone) and _is_strange_stop(found, member)):
        return found
    if gone:
        return task_ends.of_gone(launch, gone, member.node, stopping=member.stopping, killed=member.killed)
    assert end
    if member.killed:
        return reports.of_forced_stop(launch)
    return task_ends.without_report(launch, end.code, end.text, member.node)


def at_barrier(member: Member, launch: Launch, gate: Gate) -> Report:
    """The report of a task that did not start, because not all were ready. Where the cluster places each task
    separately, two jobs may wait for each other's resources: then both release them and try again later."""
    gone = member.gone
    if gate.own_places and gone and gone.reason != GoneKind.ENDED:
        return task_ends.of_gone(launch, gone, member.node, stopping=member.stopping, killed=member.killed)
    return task_ends.of_barrier(launch, gate.failed, conflict=gate.own_places and gate.is_late)


def _explains(gone: Gone) -> bool:
    return gone.reason not in _NO_CAUSE


def _is_strange_stop(found: Report, member: Member) -> bool:
    diagnosis = Diagnosis.from_json(found.diagnosis) if found.diagnosis else None
    stopped = found.stopped_by is not None and not found.time_limit
    return stopped and not (member.stopping or member.killed) and not (diagnosis and diagnosis.before_stop)
