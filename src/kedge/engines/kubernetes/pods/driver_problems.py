"""Why a run has not begun, or does not go on: what its driver's Job and pod say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kedge.engines.kubernetes.objects import scheduling
from kedge.engines.kubernetes.pods import fields, waiting
from kedge.engines.kubernetes.pods.fields import Fields

_REFUSALS = (
    (re.compile(r"exceeded quota"), "the namespace's quota has no room for the driver's pod",
     "wait until others end, delete old runs (kedge rm), or ask for more"),
    (re.compile(r"serviceaccount \"?([^\s\"]+)\"? not found"), "the driver's service account does not exist",
     "`kedge kubernetes setup` prints what the namespace needs"),
    (re.compile(r"violates PodSecurity|PodSecurityPolicy|unable to validate against any"),
     "the cluster's security rules refuse the driver's pod", "show the message to the site's administrator"),
    (re.compile(r"admission webhook"), "the cluster's own rules refuse the driver's pod",
     "show the message to the site's administrator"),
    (re.compile(r"priority ?class", re.I), "the driver's priority class does not exist",
     "check --kubernetes priority-class; kubectl get priorityclasses lists them"),
    (re.compile(r"is forbidden"), "the cluster refuses to create the driver's pod",
     "show the message to the site's administrator"),
)  # fmt: skip
_CREATING = re.compile(r"^Error creating: ")


def refusal(message: str) -> str:
    """What the API server answered when a pod was to be created, in words with what to do; the message where kedge
    knows no better."""
    said = _CREATING.sub("", fields.one_line(message))
    for pattern, words, to_do in _REFUSALS:
        if pattern.search(said):
            return f"{words}: {said}; {to_do}"
    return said


def why_not_running(
    job: Fields | None, pods: Sequence[Fields], job_events: Sequence[Fields] = (), pod_events: Sequence[Fields] = ()
) -> str:
    """Why nobody decides about a run; empty if its driver runs. `job` is the driver's, or None if it is not there;
    `pods` are those of this Job, `pod_events` those of the youngest."""
    if job is None:
        return "the Job of its driver does not exist (any more)"
    failed = fields.condition(job, "Failed")
    if failed.get("status") == "True":
        said = fields.one_line(failed.get("message")) or str(failed.get("reason") or "")
        return f"Kubernetes has given its driver up: {said}; kubectl logs job/{job['metadata']['name']} may say why"
    if (job.get("spec") or {}).get("suspend"):
        return _suspended(job)
    pod = max(pods, key=lambda each: fields.seconds(each["metadata"].get("creationTimestamp")) or 0.0, default=None)
    if pod is None:
        found = fields.last_event(job_events, "FailedCreate")
        return refusal(str(found.get("message"))) if found else "Kubernetes has not created the pod of its driver yet"
    return _of_pod(pod, pod_events)


def _suspended(job: Fields) -> str:
    """Kueue can be told to hold Jobs that name no queue, and to put them into one that is called `default`."""
    queue = (job["metadata"].get("labels") or {}).get(scheduling.QUEUE)
    where = f"waits in the queue {queue}" if queue else "waits for Kueue or whoever suspends Jobs that name no queue"
    return (
        f"the Job of its driver is suspended: it {where}; a driver should wait in no queue: have the site's "
        "administrator exempt Jobs with the label kedge.io/component=driver, or their namespace"
    )


def _of_pod(pod: Fields, events: Sequence[Fields]) -> str:
    name, node = pod["metadata"]["name"], fields.node(pod)
    if fields.asked_to_go(pod) is not None:
        return f"the pod of its driver is being deleted (on node {node})" if node else "the pod of its driver goes"
    for each in fields.status(pod).get("containerStatuses") or ():
        last = (each.get("state") or {}).get("terminated") or (each.get("lastState") or {}).get("terminated")
        if last and "running" not in (each.get("state") or {}) and last.get("exitCode"):
            why = str(last.get("reason") or "Error")
            if said := fields.one_line(last.get("message")):
                return f"its driver ended: {said}"
            return f"its driver ended with exit code {last['exitCode']} ({why}); kubectl logs {name} may say why"
    if fields.phase(pod) == "Failed":
        why = ": ".join(filter(None, (fields.reason(pod), fields.message(pod))))
        return f"the pod of its driver has failed: {why}"
    found = waiting.of_pod(pod, events)
    return f"the pod of its driver waits: {found.words}" if found else ""
