"""The statuses of Frameworks as FrameworkController writes them, and what follows from them."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Status = dict[str, Any]
STOPPED, ATTEMPT_OVER, POD_DELETED, NO_CONTAINER = -210, -220, -101, -300
CREATION, PREPARING, RUNNING = "AttemptCreationPending", "AttemptPreparing", "AttemptRunning"
DELETING, ATTEMPT_COMPLETED, COMPLETED = "AttemptDeleting", "AttemptCompleted", "Completed"
_TRANSIENT = {-101, -1000, -1001, -1002, -1003, -1300, 137, 250, 251, 253}
_PHRASES = {0: "Succeeded", -101: "PodExternalDeleted", -210: "StopFrameworkRequested",
            -220: "FrameworkAttemptCompletion"}  # fmt: skip


def now() -> str:
    """A time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def of_framework(spec: Mapping[str, Any], attempt: int = 0) -> Status:
    """The status of a Framework when one of its attempts begins."""
    roles = [
        {"name": role["name"], "podGracefulDeletionTimeoutSec": None,
         "taskStatuses": [of_task(index) for index in range(role["taskNumber"])]}
        for role in spec["taskRoles"]
    ]  # fmt: skip
    return {
        "startTime": now(), "completionTime": None, "state": CREATION, "transitionTime": now(),
        "retryPolicyStatus": {"totalRetriedCount": attempt, "accountableRetriedCount": 0, "retryDelaySec": None},
        "attemptStatus": {
            "id": attempt, "startTime": now(), "runTime": None, "completionTime": None, "instanceUID": None,
            "configMapName": None, "configMapUID": None, "completionStatus": None, "taskRoleStatuses": roles,
            "taskRoleStatusesCompressed": None,
        },
    }  # fmt: skip


def of_task(index: int, attempt: int = 0) -> Status:
    """The status of a task when one of its attempts begins."""
    return {
        "index": index, "startTime": now(), "completionTime": None, "state": CREATION, "transitionTime": now(),
        "deletionPending": False,
        "retryPolicyStatus": {"totalRetriedCount": attempt, "accountableRetriedCount": 0, "retryDelaySec": None},
        "attemptStatus": {
            "id": attempt, "startTime": now(), "runTime": None, "completionTime": None, "instanceUID": None,
            "podName": None, "podUID": None, "podNodeName": None, "podIP": None, "podHostIP": None,
            "completionStatus": None,
        },
    }  # fmt: skip


def move(status: Status, state: str) -> None:
    """Set the state of a Framework or a task, with the times that belong to it."""
    if status["state"] == state:
        return
    status["state"], status["transitionTime"] = state, now()
    if state == RUNNING:
        status["attemptStatus"]["runTime"] = now()
        status.setdefault("runTime", now())
    if state == ATTEMPT_COMPLETED:
        status["attemptStatus"]["completionTime"] = now()
    if state == COMPLETED:
        status["completionTime"] = now()


def complete(status: Status, code: int, diagnostics: str) -> None:
    """Set how an attempt ended, unless that is known."""
    if status["attemptStatus"].get("completionStatus") is None:
        name, attributes = ("Succeeded" if code == 0 else "Failed"), (["Transient"] if code in _TRANSIENT else [])
        status["attemptStatus"]["completionStatus"] = {
            "code": code, "phrase": _PHRASES.get(code, "ContainerUnrecognizedFailed"),
            "type": {"name": name, "attributes": attributes}, "diagnostics": diagnostics,
        }  # fmt: skip


def code_of(status: Mapping[str, Any]) -> int | None:
    """How its attempt ended; None: it has not."""
    found = status["attemptStatus"].get("completionStatus")
    return found["code"] if found else None


def retries(policy: Mapping[str, Any], status: Status) -> bool:
    """Whether another attempt follows; its retry is counted then, unless it is for a transient failure."""
    code, counts = code_of(status), status["retryPolicyStatus"]
    if code in (0, STOPPED, ATTEMPT_OVER):
        return False
    if policy.get("fancyRetryPolicy") and code in _TRANSIENT:
        return True
    if counts["accountableRetriedCount"] >= policy.get("maxRetryCount", 0):
        return False
    counts["accountableRetriedCount"] += 1
    return True


def pod_end(pod: Mapping[str, Any]) -> tuple[int, str] | None:
    """The code and the diagnostics of a pod that has ended."""
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return 0, "Pod succeeded"
    if status.get("phase") != "Failed":
        return None
    each = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    ended = [(c["name"], c["state"]["terminated"]) for c in each if "terminated" in c.get("state", {})]
    failed = [(name, end) for name, end in ended if end.get("exitCode")]
    if not failed:
        return NO_CONTAINER, f"Pod failed: PodPattern unmatched: {json.dumps(status)}"
    name, last = max(failed, key=lambda one: str(one[1].get("finishedAt", "")))
    matched = {"name": name, "reason": last.get("reason"), "message": last.get("message"), "code": last["exitCode"]}
    return last["exitCode"], f"Pod failed: PodPattern matched: {json.dumps({'containers': [matched]})}"


def triggered(spec: Mapping[str, Any], roles: list[dict[str, Any]]) -> tuple[int, str] | None:
    """Whether the attempt of a job is over by the policies of its roles."""
    for role, statuses in zip(spec["taskRoles"], roles, strict=True):
        policy, tasks = role["frameworkAttemptCompletionPolicy"], statuses["taskStatuses"]
        done = [task for task in tasks if task["state"] == COMPLETED]
        failed = [task for task in done if code_of(task) != 0]
        if 1 <= policy["minFailedTaskCount"] <= len(failed):
            why = _why(failed[-1], "Failed", len(failed), policy["minFailedTaskCount"], role["name"])
            return code_of(failed[-1]) or 0, why
        if 1 <= policy["minSucceededTaskCount"] <= len(done) - len(failed):
            ended = next(task for task in reversed(done) if task not in failed)
            count = len(done) - len(failed)
            return 0, _why(ended, "Succeeded", count, policy["minSucceededTaskCount"], role["name"])
    if all(task["state"] == COMPLETED for each in roles for task in each["taskStatuses"]):
        return 0, "All Tasks are completed and no user specified conditions have ever been triggered"
    return None


def _why(task: Mapping[str, Any], kind: str, count: int, policy: int, role: str) -> str:
    said = task["attemptStatus"]["completionStatus"]["diagnostics"]
    return (
        f"{kind}TaskCount {count} has reached Min{kind}TaskCount {policy} in TaskRole [{role}]: "
        f"Triggered by Task [{role}][{task['index']}]: Diagnostics: {said}"
    )


def tasks(status: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each task's status with its role in the Framework."""
    for role, statuses in zip(spec["taskRoles"], status["attemptStatus"]["taskRoleStatuses"], strict=True):
        yield from ((role, task) for task in statuses["taskStatuses"])


def unpacked(status: Status) -> Status:
    """With its roles in plain form."""
    attempt = status["attemptStatus"]
    if packed := attempt.get("taskRoleStatusesCompressed"):
        roles = json.loads(gzip.decompress(base64.b64decode(packed)))
        attempt |= {"taskRoleStatuses": roles, "taskRoleStatusesCompressed": None}
    return status


def packed(status: Status) -> Status:
    """With its roles compressed, as those of large jobs are."""
    attempt = dict(status["attemptStatus"])
    data = gzip.compress(json.dumps(attempt["taskRoleStatuses"]).encode())
    attempt |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": base64.b64encode(data).decode()}
    return {**status, "attemptStatus": attempt}


def filled(value: Any, replace: Callable[[str], str]) -> Any:
    """A template with something replaced in all of its texts."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [filled(each, replace) for each in value]
    return {key: filled(each, replace) for key, each in value.items()} if isinstance(value, dict) else value
