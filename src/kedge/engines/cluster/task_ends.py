"""The reports of task attempts whose supervisor left none, made from what the cluster or the agent reported."""

from __future__ import annotations

import signal

from kedge.contract import (
    CANNOT_START,
    COMMAND_KILLED,
    PERHAPS_MEMORY,
    RUNTIME_BROKE,
    RUNTIME_ERROR,
    STOPPED_BY_TIME_LIMIT,
    TIME_LIMIT,
    Report,
)
from kedge.diagnose import model
from kedge.diagnose.model import SURE, Cause, Diagnosis
from kedge.engines.cluster.base import EndKind, Gone, GoneKind
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch
from kedge.light.functools import cache

# OpenPAI's codes for tasks that end from outside.
_DELETED = -101
_EVICTED = -1000
_NODE_LOST = -1001
_PREEMPTED = -1003
_OUT_OF_MEMORY = -1200
_NO_GANG = 251  # JobGangAllocationTimeout: tried again after 60 to 900 s
_NOT_CREATED = -310  # PodCreationUnknownError
_ENDED_OUTSIDE = -300  # without a failed container: whether another try helps is left open

_HOST_OOM = "host_oom_kill"
_UNAVAILABLE = "scheduler_resource_unavailable"


KINDS = {
    GoneKind.NODE_LOST: EndKind(_NODE_LOST, RUNTIME_ERROR, "node_failure", "the task's node was lost"),
    GoneKind.OUT_OF_MEMORY: EndKind(
        _OUT_OF_MEMORY, COMMAND_KILLED, _HOST_OOM, "the cluster killed the task for lack of memory"
    ),
    GoneKind.PREEMPTED: EndKind(_PREEMPTED, COMMAND_KILLED, "preempted", "the cluster preempted the task"),
    GoneKind.CANCELLED: EndKind(
        _ENDED_OUTSIDE, COMMAND_KILLED, "job_cancelled", "the task was cancelled in the cluster, not by this job"
    ),
    GoneKind.OUT_OF_TIME: EndKind(
        STOPPED_BY_TIME_LIMIT, TIME_LIMIT, model.TIME_LIMIT, "the cluster's own time limit ended the task",
        ("Ask the cluster for more time, or save checkpoints in $KEDGE_JOB_DIR and continue from them.",),
    ),
    GoneKind.NOT_STARTED: EndKind(
        _NOT_CREATED, CANNOT_START, _UNAVAILABLE, "the cluster could not start the task",
        ("Read the cluster's message. If it names a node, the site's administrator should look at that node.",),
    ),
    GoneKind.EVICTED: EndKind(_EVICTED, COMMAND_KILLED, "evicted", "the cluster evicted the task"),
    GoneKind.DELETED: EndKind(
        _DELETED, COMMAND_KILLED, "removed_outside", "somebody outside this job deleted the task's pod"
    ),
}  # fmt: skip


def of_gone(launch: Launch, gone: Gone, node: str, *, stopping: bool, killed: bool) -> Report:
    """The report of an attempt whose end the cluster has reported. `node` is where it was; empty if that is unknown.
    `stopping` and `killed`: what this controller had asked for before, which is then why it ended."""
    if killed and gone.reason in (GoneKind.ENDED, GoneKind.CANCELLED, GoneKind.DELETED):
        return reports.of_forced_stop(launch)
    kind = gone.kind or KINDS.get(gone.reason)
    report = _of_kind(launch, kind, gone.text, node) if kind else _of_exit(launch, gone, node)
    return report._replace(stopped_by="TERM") if stopping else report


def _of_kind(launch: Launch, kind: EndKind, text: str, node: str) -> Report:
    what = kind.sentence + (f" (node {node})" if node else "") + (f": {text.rstrip('. ')}" if text else "")
    return reports.ended(launch, kind.code, kind.reason, what)._replace(diagnosis=_diagnosis(kind, what).to_json())


def _diagnosis(kind: EndKind, what: str) -> Diagnosis:
    known = _cause(kind.cause)
    meaning = f"{what[0].upper()}{what[1:]}."  # the same as the message, which is then shown once
    return Diagnosis(kind.cause, known.behaviour, SURE, known.owner, meaning, kind.remedy or known.remedy)


@cache  # all tasks may be lost at once, and each reading of the rules takes milliseconds
def _cause(name: str) -> Cause:
    from kedge.diagnose.rules.packaged import packaged  # most tasks end with a report

    return packaged().cause(name)


def _of_exit(launch: Launch, gone: Gone, node: str) -> Report:
    """Its agent has ended, and took the supervisor with it."""
    return without_report(launch, gone.code, gone.text, node)


def without_report(launch: Launch, code: int | None, text: str, node: str) -> Report:
    """The report of an attempt whose supervisor, or whose agent, ended with `code` (-n for signal n; None if that is
    not known) and left none."""
    where, more = f" on node {node}" if node else "", f": {text}" if text else ""
    if code == -signal.SIGKILL:
        what = f"the task's supervisor{where} was killed by SIGKILL, perhaps because the node ran out of memory{more}"
        return reports.of_kill(launch, -code, what, PERHAPS_MEMORY)
    if code is not None and code < 0:
        return reports.of_kill(launch, -code, f"the task's supervisor{where} was killed by {_signal(-code)}{more}")
    how = "ended" if code is None else f"ended with exit code {code}"
    what = f"the task's supervisor{where} {how} and left no report{more}"
    return reports.of_end(launch, RUNTIME_BROKE if code is None else code, what)


def of_barrier(launch: Launch, what: str, *, conflict: bool = False) -> Report:
    """The report of an attempt that never started, because not all tasks of the job were ready. `what` names those
    that were not. `conflict`: another job may hold the resources that they wait for, so the job waits and retries."""
    kind = EndKind(
        _NO_GANG if conflict else _NOT_CREATED, CANNOT_START, _UNAVAILABLE, "not all tasks of the job were ready",
        ("Look at the node of the missing task and at the cluster's message about it.",
         "Check that all nodes reach the controller's node over the network, and share the run folder with it."),
    )  # fmt: skip
    return reports.ended(launch, kind.code, kind.reason, what)._replace(
        diagnosis=_diagnosis(kind, kind.sentence).to_json()
    )


def of_lost_agent(launch: Launch, what: str) -> Report:
    """The report of an attempt whose agent was replaced by another one that knows nothing of it."""
    return reports.ended(launch, RUNTIME_BROKE, RUNTIME_ERROR, what)


def of_too_large_start(launch: Launch, what: str) -> Report:
    """The report of an attempt whose START message would be too large; `what` names its large parts."""
    sentence = f"the data that the task needs to start is too large for one message: {what}"
    remedy = ("Put large values into files: beside the job file, in a storage, or in $KEDGE_JOB_DIR.",)
    kind = EndKind(RUNTIME_BROKE, CANNOT_START, "bad_config", sentence, remedy)
    return reports.ended(launch, kind.code, kind.reason, sentence)._replace(
        diagnosis=_diagnosis(kind, sentence).to_json()
    )


def not_started(launch: Launch, reason: str, what: str) -> Report:
    """The report of an attempt that this controller could not start."""
    return reports.ended(launch, RUNTIME_BROKE, reason, what)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
