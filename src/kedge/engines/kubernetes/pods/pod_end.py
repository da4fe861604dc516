"""How the pod of a task attempt ended.

A pod that was evicted, or deleted by a stranger, and whose program then ends with 0 is no success: what the cluster did
counts before the exit code, unless the program had ended before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kedge.engines.base import Task
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.kubernetes.pods import cluster_signs, containers, fields, kinds
from kedge.engines.kubernetes.pods.containers import PodEnd
from kedge.engines.kubernetes.pods.fields import AGENT, APP, PREPARE, Fields

_OVER = ("Succeeded", "Failed")


class Asked(NamedTuple):
    """What kedge itself has asked for: the deletion of the pod, and that without the consent of its node. `waited_sec`
    is how long that node had not answered."""

    deleted: bool = False
    forced: bool = False
    waited_sec: int = 0


def is_over(pod: Fields) -> bool:
    """Whether the cluster says that nothing of the pod runs any more."""
    return fields.phase(pod) in _OVER


def of_pod(pod: Fields, asked: Asked, events: Sequence[Fields] = (), *, gone: bool = False) -> PodEnd | None:
    """How it ended; None if the task's container may still run. `gone`: its object is not there any more, and `pod` is
    how it was seen last. `events` are needed only if `needs_events`."""
    app = fields.terminated(pod, APP)
    if not (gone or app or is_over(pod)):
        return _without_agent(pod)
    if gone and asked.forced:
        return PodEnd(GoneKind.NODE_LOST, _forced(pod, asked))
    sign = _sign(pod, events, gone)
    if sign and not _ended_before(app, sign.at):
        return sign.end
    went = fields.asked_to_go(pod)
    if went is not None and not asked.deleted and not _ended_before(app, went):
        return _deleted(app)
    return _by_itself(pod, app, asked, gone)


def needs_events(pod: Fields, asked: Asked, *, gone: bool = False) -> bool:
    """Whether its events may tell more about its end: a stranger deleted it, and no condition says who."""
    end = of_pod(pod, asked, gone=gone)
    return end is not None and end.reason == GoneKind.DELETED


def gone(end: PodEnd, task: Task, attempt: int) -> Gone:
    """The end as the backend takes it."""
    return Gone(task, attempt, end.reason, end.text, end.code, kind=end.kind)


def _sign(pod: Fields, events: Sequence[Fields], gone: bool) -> cluster_signs.ClusterSign | None:
    found = cluster_signs.of_conditions(pod)
    if not found and (gone or is_over(pod)):
        found = cluster_signs.of_status(pod)
    if not found and (gone or fields.asked_to_go(pod) is not None):
        found = cluster_signs.of_events(pod, events)
    return found


def _by_itself(pod: Fields, app: Fields, asked: Asked, gone: bool) -> PodEnd:
    """Nobody but kedge has asked it to go."""
    if app:
        return containers.ended(app)
    prepare = fields.terminated(pod, PREPARE)
    if prepare.get("exitCode") and not asked.deleted:
        return containers.prepare_failed(prepare)
    if asked.deleted:
        return PodEnd(GoneKind.ENDED)
    if gone:
        return _deleted(app)
    agent = fields.terminated(pod, AGENT)
    if agent.get("exitCode"):
        return _agent_ended(agent)
    text = fields.message(pod) or "the cluster does not say why"
    if fields.phase(pod) == "Failed":
        return PodEnd(GoneKind.NOT_STARTED, text, kind=kinds.NODE_ERROR)
    return PodEnd(GoneKind.ENDED)


def _without_agent(pod: Fields) -> PodEnd | None:
    """The task runs, or waits to run, but nobody speaks for it any more: it will have to be ended."""
    agent = fields.terminated(pod, AGENT)
    if agent.get("exitCode") and fields.asked_to_go(pod) is None:
        return _agent_ended(agent)
    return None


def _agent_ended(state: Fields) -> PodEnd:
    code, reason = state.get("exitCode"), str(state.get("reason") or "")
    said = fields.one_line(state.get("message"))
    why = f"{reason}, exit code {code}" if reason not in ("", "Error") else f"exit code {code}"
    return PodEnd(GoneKind.NOT_STARTED, f"{why}: {said}" if said else why, kind=kinds.AGENT)


def _ended_before(app: Fields, at: float | None) -> bool:
    """Whether the task's container had ended before something happened to its pod. Times are in whole seconds."""
    ended = fields.seconds(app.get("finishedAt")) if app else None
    return ended is not None and at is not None and ended < at


def _deleted(app: Fields) -> PodEnd:
    text = "with kubectl delete, or by a drain of its node"
    if app and app.get("exitCode") == 0:
        text += "; its exit code 0 does not count"
    return PodEnd(GoneKind.DELETED, text, containers.signal_or_code(app) if app else None)


def _forced(pod: Fields, asked: Asked) -> str:
    where = fields.node(pod) or "its node"
    return (
        f"{where} did not confirm the end of the pod for {asked.waited_sec} s, so that it was removed by force; "
        "what ran there may still run"
    )
