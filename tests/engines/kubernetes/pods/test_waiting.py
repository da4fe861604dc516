"""Why pods wait: in words, with a deadline, and what the task ends with after that."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engines.kubernetes.pods.shapes import REAL, deleted, event, pod, waits

from kedge.engines.kubernetes.pods import waiting
from kedge.engines.kubernetes.pods.waiting import PodWait, WaitLimit

D = WaitLimit
UNPACK = (
    'rpc error: code = Unknown desc = failed to pull and unpack image "r/i:1": failed to resolve reference "r/i:1": '
)
NOT_YET = {"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}}

# name of a real pod -> deadline, code, cause, words
ON_1_20 = {
    "big": (D.PENDING, 251, "scheduler_resource_unavailable", "2 have too little CPU free"),
    "selector": (D.PENDING, 251, "scheduler_resource_unavailable", "2 lack labels that it asks for; check"),
    "no-pvc": (D.PENDING, 251, "scheduler_resource_unavailable", "miss the PersistentVolumeClaim nope"),
    "unbound-pvc": (D.PENDING, 251, "scheduler_resource_unavailable", "volumes not bound yet"),
    "bad-name": (D.AT_ONCE, 254, "container_failure", "must be lowercase"),
    "never": (D.AT_ONCE, 254, "container_failure", "may not pull it"),
    "non-root": (D.AT_ONCE, 254, "container_failure", "wants to run as root"),
    "no-host": (D.IMAGE_WAIT, 254, "network_unreachable", "no such host"),
    "no-host-now": (D.IMAGE_WAIT, 254, "network_unreachable", "no such host"),
    "refused": (D.IMAGE_WAIT, 254, "network_transient", "connection refused"),
    "refused-now": (D.IMAGE_WAIT, 254, "network_transient", "connection refused"),
    "no-secret": (D.IMAGE_WAIT, -1201, "bad_config", 'secret "nope" not found'),
    "no-mount": (D.PENDING, -1201, "bad_config", 'configmap "nope" not found'),
    "nfs": (D.PENDING, -1201, "container_failure", "unknown filesystem type"),
}

ELSEWHERE = [
    (waits("ErrImagePull", f"{UNPACK}r/i:1: not found"), D.IMAGE_WAIT, 254, "container_failure", "does not exist"),
    (waits("ErrImagePull", f"{UNPACK}pull access denied, repository does not exist or may require authorization: "
     "server message: insufficient_scope: authorization failed"), D.IMAGE_WAIT, 254, "remote_access_denied", "hand"),
    (waits("ErrImagePull", f"{UNPACK}unexpected status code [manifests 1]: 401 Unauthorized"), D.IMAGE_WAIT, 254,
     "remote_access_denied", "401"),
    (waits("ErrImagePull", f"{UNPACK}unexpected status from HEAD request to https://r/v2/i/manifests/1: 503 Service "
     "Unavailable"), D.IMAGE_WAIT, 254, "network_transient", "503"),
    (waits("ErrImagePull", "toomanyrequests: You have reached your pull rate limit."), D.IMAGE_WAIT, 254,
     "network_transient", "pull rate limit"),
    (waits("ErrImagePull", f"{UNPACK}failed to do request: Head \"https://r/v2/\": tls: failed to verify certificate: "
     "x509: certificate signed by unknown authority"), D.IMAGE_WAIT, 254, "network_unreachable", "x509"),
    (waits("ErrImagePull", f"{UNPACK}no match for platform in manifest: not found"), D.IMAGE_WAIT, 254,
     "container_failure", "processor"),
    (waits("ErrImagePull", "failed to extract layer: write /x: no space left on device"), D.IMAGE_WAIT, 254,
     "node_refused", "no space for the image"),
    (waits("ImagePullBackOff", f'Back-off pulling image "r/i:1": ErrImagePull: {UNPACK}r/i:1: not found'),  # 1.33
     D.IMAGE_WAIT, 254, "container_failure", "does not exist"),
    (waits("RegistryUnavailable", "Get https://r/v2/: dial tcp 1.2.3.4:443: i/o timeout"), D.IMAGE_WAIT, 254,
     "network_transient", "i/o timeout"),
    (waits("ErrImagePull", f"{UNPACK}r/i:1: not found", name="prepare"), D.IMAGE_WAIT, 254, "container_failure",
     "kedge's runtime image registry/i:1"),
    (waits("CreateContainerConfigError", "container has runAsNonRoot and image has non-numeric user (app), cannot "
     "verify user is non-root"), D.AT_ONCE, 254, "container_failure", "non-numeric user"),
    (waits("CreateContainerError", "context deadline exceeded"), D.IMAGE_WAIT, -1201, "container_failure", "deadline"),
    (waits("CreateContainerError", "nvidia-container-cli: initialization error"), D.IMAGE_WAIT, -1204,
     "gpu_unavailable", "nvidia"),
    (waits("RunContainerError", 'exec: "/x": permission denied'), D.IMAGE_WAIT, -1202, "container_failure", "denied"),
    (NOT_YET, D.PENDING, 251, "scheduler_resource_unavailable", "no scheduler has looked at it"),
]  # fmt: skip


def check(found: Any, row: tuple[Any, ...], events: Any = ()) -> None:
    wait = waiting.of_pod(found, events)
    assert wait
    assert wait.end
    assert wait.end.kind
    deadline, code, cause, words = row
    assert (wait.deadline, wait.end.kind.code, wait.end.kind.cause) == (deadline, code, cause)
    assert words in wait.words
    assert "rpc error" not in wait.words


@pytest.mark.parametrize("name", ON_1_20)
def test_pods_of_a_real_cluster_of_1_20(name: str) -> None:
    check(REAL[name]["pod"], ON_1_20[name], REAL[name]["events"])


@pytest.mark.parametrize("row", ELSEWHERE, ids=lambda row: f"{row[1].value}{row[2]}-{row[4][:12]}")
def test_pods_of_other_clusters(row: tuple[Any, ...]) -> None:
    check(row[0], row[1:])


@pytest.mark.parametrize("name", ["succeeded", "failed", "oom", "agent-fails", "deleted", "deadline", "storage"])
def test_a_pod_that_runs_or_is_over_does_not_wait(name: str) -> None:
    assert waiting.of_pod(REAL[name]["pod"], REAL[name]["events"]) is None


def test_a_pod_that_is_being_deleted_does_not_wait() -> None:
    assert waiting.of_pod(deleted(REAL["no-host"]["pod"])) is None


def test_what_a_registry_said_is_remembered_while_the_node_pauses() -> None:
    before = waiting.of_pod(REAL["no-host-now"]["pod"])
    after = waiting.of_pod(REAL["no-host"]["pod"], (), before)
    assert after
    assert after.end == before.end if before else False
    assert after.answer.endswith("no such host")


@pytest.mark.parametrize(
    ("found", "events", "words"),
    [
        (pod(phase="Pending"), [event("Pulling", 'Pulling image "big:1"')], 'node n1: pulling image "big:1"'),
        (waits("ContainerCreating"), [], "node n1 sets it up"),
        (waits("PodInitializing"), [event("FailedMount", "m", "2026-11-23T09:00:00Z"),
                                    event("Pulling", 'Pulling image "i"')], 'pulling image "i"'),
        (pod(phase="Pending", initContainerStatuses=[{"name": "prepare", "state": {"running": {}}}]), [],
         "being prepared on node n1"),
        ({**NOT_YET, "status": {"nominatedNodeName": "n2"}}, [], "to leave node n2"),
    ],
)  # fmt: skip
def test_what_is_no_problem_has_no_deadline(found: Any, events: Any, words: str) -> None:
    wait = waiting.of_pod(found, events)
    assert wait
    assert words in wait.words
    assert (wait.deadline, wait.end) == (D.UNLIMITED, None)


def test_the_time_of_a_pod_that_is_held_back_has_not_begun() -> None:
    gated = {**NOT_YET, "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
    assert waiting.of_pod(gated) == PodWait("the cluster holds it back (kueue.x-k8s.io/admission)", D.QUEUED)
    queued = {**gated, "metadata": {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "team"}}}
    assert waiting.of_pod(queued) == PodWait("waiting in queue team", D.QUEUED)
    assert waiting.of_pod(queued, queue_said="no room") == PodWait("waiting in queue team: no room", D.QUEUED)
    told = {**NOT_YET, "status": {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}}
    assert waiting.of_pod(told) == PodWait("the cluster holds it back (a scheduling gate)", D.QUEUED)


def test_a_network_that_cannot_be_set_up_ends_a_pod_after_a_while() -> None:
    said = 'failed to set up sandbox container "x" network for pod "p": no addresses available'
    check(waits("ContainerCreating"), (D.PENDING, -1201, "node_failure", "no addresses"),
          [event("FailedCreatePodSandBox", said)])  # fmt: skip


def test_a_storage_that_does_not_answer_may_come_back() -> None:
    said = 'MountVolume.SetUp failed for volume "v" : mount.nfs: Connection timed out'
    check(waits("ContainerCreating"), (D.PENDING, -1201, "storage_hang", "timed out"), [event("FailedMount", said)])
