"""When the driver takes a task attempt for over, and how long it lets pods wait."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.engines.kubernetes.pods.shapes import REAL, deleted, ended, pod

from kedge.engines.base import Task
from kedge.engines.cluster.base import GoneKind
from kedge.engines.kubernetes.in_driver.attempt_pod import AttemptPod, PodKey, PodStage
from kedge.engines.kubernetes.in_driver.pod_checks import RunPodChecks
from kedge.engines.kubernetes.options import KubernetesOptions

CHECKS = RunPodChecks(KubernetesOptions(image_wait="5m", pending="10m"))


def seen(found: dict[str, Any], stage: PodStage = PodStage.THERE, **more: Any) -> AttemptPod:
    uid = found["metadata"]["uid"]
    return AttemptPod(PodKey(Task("w", 0), 0, 0), "p", stage=stage, uid=uid, pod=found, **more)


def test_a_pod_that_no_node_can_take_is_given_up_after_its_time() -> None:
    found = seen(REAL["big"]["pod"])
    assert CHECKS.gone(found, 100.0) is None
    assert CHECKS.pending(found).startswith("none of 2 nodes can take it")
    assert CHECKS.gone(found, 699.0) is None
    gone = CHECKS.gone(found, 700.0)
    assert gone
    assert gone.kind
    assert (gone.reason, gone.kind.code) == (GoneKind.NOT_STARTED, 251)


def test_the_time_of_a_pod_that_an_earlier_driver_has_created_goes_on() -> None:
    made = dict(REAL["big"]["pod"])
    minutes = timedelta(minutes=8)
    placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    placed["lastTransitionTime"] = (datetime.now(UTC) - minutes).strftime("%Y-%m-%dT%H:%M:%SZ")
    made["status"] = {**made["status"], "conditions": [placed]}
    found = seen(made, was_found=True)
    assert CHECKS.gone(found, 1000.0) is None
    assert CHECKS.gone(found, 1100.0) is None
    assert CHECKS.gone(found, 1130.0)


def test_the_time_for_an_image_begins_when_it_is_missed() -> None:
    found = seen(REAL["big"]["pod"])
    assert CHECKS.gone(found, 0.0) is None
    found.pod = REAL["no-host-now"]["pod"]
    assert CHECKS.gone(found, 500.0) is None
    found.pod = REAL["no-host"]["pod"]  # the node pauses, and does not say any more what the registry said
    assert CHECKS.gone(found, 799.0) is None
    assert "no such host" in CHECKS.pending(found)
    gone = CHECKS.gone(found, 801.0)
    assert gone
    assert gone.kind
    assert gone.kind.cause == "network_unreachable"


def test_what_cannot_get_better_is_told_at_once() -> None:
    gone = CHECKS.gone(seen(REAL["bad-name"]["pod"]), 0.0)
    assert gone
    assert "lowercase" in gone.text


def test_a_volume_that_cannot_be_mounted_is_known_by_events() -> None:
    found = seen(REAL["nfs"]["pod"], asked=0.0)
    assert CHECKS.gone(found, 0.0) is None
    assert CHECKS.pending(found) == "node node2 sets it up"
    assert not CHECKS.wants_events(found, 1.0)  # most pods start soon
    assert CHECKS.wants_events(found, 16.0)
    found.events = REAL["nfs"]["events"]
    assert CHECKS.gone(found, 20.0) is None
    assert "unknown filesystem" in CHECKS.pending(found)
    assert CHECKS.gone(found, 619.0) is None
    assert CHECKS.gone(found, 621.0)


def test_who_deleted_a_pod_is_asked_for_when_its_container_has_ended() -> None:
    found = seen(REAL["low"]["pod"], terminating=1.0)  # its agent waits until the end is recorded
    assert CHECKS.gone(found, 2.0) is None
    assert CHECKS.is_final(found)
    assert CHECKS.wants_events(found, 2.0)
    found.events = REAL["low"]["events"]
    found.has_last_events = True
    assert not CHECKS.wants_events(found, 2.0)
    gone = CHECKS.gone(found, 2.0)
    assert gone
    assert gone.reason == GoneKind.PREEMPTED


def test_an_agent_knows_the_end_before_the_node_tells_where_somebody_deletes_the_pod() -> None:
    """The kubelet of 1.20 shows the container as running until all of the pod has ended, its agent too."""
    running = pod(containerStatuses=[{"name": "app", "state": {"running": {}}}])
    found = seen(deleted(running), terminating=1.0)
    assert (CHECKS.gone(found, 2.0), CHECKS.is_final(found)) == (None, False)
    found.supervisor_ended = True
    assert (CHECKS.gone(found, 2.0), CHECKS.is_final(found)) == (None, True)
    found.has_last_events = True
    gone = CHECKS.gone(found, 2.0)
    assert gone
    assert gone.reason == GoneKind.DELETED
    found.events = REAL["low"]["events"]
    gone = CHECKS.gone(found, 2.0)
    assert gone
    assert gone.reason == GoneKind.PREEMPTED
    assert CHECKS.gone(seen(running, supervisor_ended=True), 2.0) is None, "it has ended by itself"
    assert CHECKS.gone(seen(deleted(running), supervisor_ended=True, deleting=True), 2.0) is None, "kedge deleted it"


def test_an_end_that_kedge_asked_for_needs_no_events() -> None:
    found = seen(deleted(ended(143)), PodStage.OVER, terminating=1.0, deleting=True)
    assert not CHECKS.wants_events(found, 2.0)
    gone = CHECKS.gone(found, 2.0)
    assert gone
    assert (gone.reason, gone.code) == (GoneKind.ENDED, -15)


def test_what_no_agent_can_tell_is_told_while_it_speaks_on() -> None:
    gone = CHECKS.gone(seen(REAL["oom"]["pod"]), 0.0)
    assert gone
    assert gone.reason == GoneKind.OUT_OF_MEMORY


def test_a_task_whose_agent_failed_is_given_up() -> None:
    gone = CHECKS.gone(seen(REAL["agent-fails"]["pod"]), 0.0)
    assert gone
    assert gone.kind
    assert gone.kind.cause == "remote_worker_lost"


def test_a_pod_that_runs_is_left_alone() -> None:
    running = seen(pod(containerStatuses=[{"name": "app", "state": {"running": {}}}]))
    assert CHECKS.gone(running, 0.0) is None
    assert (CHECKS.pending(running), CHECKS.wants_events(running, 1000.0)) == ("", False)


def test_a_pod_that_hangs_is_given_up_after_its_grace_and_not_before_the_site_says_so() -> None:
    def given_up_at(grace_sec: int, lost_sec: float | None, **more: Any) -> float:
        return seen(deleted(pod(), grace=grace_sec), **{"terminating": 1000.0, **more}).given_up_at(lost_sec)

    assert given_up_at(120, 600.0) == 1600.0
    assert given_up_at(120, 30.0) == 1120.0
    assert given_up_at(120, None) == math.inf
    assert given_up_at(120, 30.0, terminating=None) == math.inf
    assert given_up_at(120, 30.0, stage=PodStage.OVER) == math.inf
