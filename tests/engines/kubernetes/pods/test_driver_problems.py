"""Why a run has not begun."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engines.kubernetes.pods.shapes import REAL, deleted, event, pod

from kedge.engines.kubernetes.pods import driver_problems

JOB = {"metadata": {"name": "r-driver"}, "status": {}}
CREATING = 'Error creating: pods "r-driver-abc" is forbidden: '


def refused(message: str) -> str:
    return driver_problems.why_not_running(JOB, [], [event("FailedCreate", message)])


def test_a_real_job_without_its_service_account() -> None:
    words = driver_problems.why_not_running(REAL["job"]["job"], [], REAL["job"]["events"])
    assert words.startswith("the driver's service account does not exist: ")
    assert words.endswith("`kedge kubernetes setup` prints what the namespace needs")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (f"{CREATING}exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5", "quota has no room"),
        (f'{CREATING}violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false', "security rules"),
        ("admission webhook \"policy.example\" denied the request: no", "the cluster's own rules refuse"),
        (f"{CREATING}no PriorityClass with name high was found", "kubectl get priorityclasses"),
        (f"{CREATING}something", "the cluster refuses to create the driver's pod: pods"),
        ("Error creating: Internal error occurred", "Internal error occurred"),
    ],
)  # fmt: skip
def test_refusals(message: str, words: str) -> None:
    assert words in refused(message)
    assert "Error creating" not in refused(message)


def container(state: Any, last: Any = None) -> dict[str, Any]:
    return {"name": "driver", "image": "r", "state": state, "lastState": last or {}}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (REAL["big"]["pod"], "the pod of its driver waits: none of 2 nodes can take it: 2 have too little CPU"),
        (REAL["no-host-now"]["pod"], "waits: the node cannot reach the registry"),
        (pod(containerStatuses=[container({"waiting": {"reason": "CrashLoopBackOff"}},
                                          {"terminated": {"exitCode": 137, "reason": "OOMKilled"}})]),
         "its driver ended with exit code 137 (OOMKilled); kubectl logs p may say why"),
        (pod(containerStatuses=[container({"terminated": {"exitCode": 1, "message": "it may not\n"}})]),
         "its driver ended: it may not"),
        (pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
         "failed: Evicted: The"),
        (deleted(pod()), "is being deleted (on node n1)"),
        (pod(containerStatuses=[container({"running": {}}, {"terminated": {"exitCode": 1}})]), ""),
    ],
)  # fmt: skip
def test_its_pod(found: Any, words: str) -> None:
    said = driver_problems.why_not_running(JOB, [REAL["failed"]["pod"] | {"metadata": {"name": "old"}}, found])
    assert words in said if words else said == ""


def test_a_job_that_is_held_back() -> None:
    held = {**JOB, "spec": {"suspend": True}}
    assert "waits for Kueue or whoever suspends Jobs that name no queue" in driver_problems.why_not_running(held, [])
    queued = {**held, "metadata": {"name": "r-driver", "labels": {"kueue.x-k8s.io/queue-name": "default"}}}
    assert "suspended: it waits in the queue default; a driver should" in driver_problems.why_not_running(queued, [])


def test_its_job() -> None:
    assert driver_problems.why_not_running(None, []) == "the Job of its driver does not exist (any more)"
    assert "not created the pod" in driver_problems.why_not_running(JOB, [])
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    given_up = driver_problems.why_not_running({**JOB, "status": {"conditions": [failed]}}, [])
    assert "given its driver up: too often" in given_up
