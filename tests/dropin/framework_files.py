"""Frameworks for tests, as FrameworkController stores them."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

# The pods of the checked example: with these UIDs, the range from 20000 to 40000 gives the ports below.
FIRST_UID, SECOND_UID = "f1020521-9bda-11ea-830b-000d3ab25bb6", "f102a4a7-9bda-11ea-830b-000d3ab25bb6"
FIRST_HOST, SECOND_HOST = "10.151.41.8", "10.151.41.9"
CONFIG = """\
protocolVersion: 2
name: test
type: job
prerequisites:
- {name: image, type: dockerimage, uri: ubuntu}
taskRoles:
  taskrole:
    dockerImage: image
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {tcp: 3, udp: 3}}
    commands: [printenv]
  taskrole_1:
    dockerImage: image
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {mpi: 2, tensorflow: 1}}
    commands: [printenv]
"""
VARIABLES = {
    "FC_FRAMEWORK_NAMESPACE": "default",
    "FC_FRAMEWORK_NAME": "0fc91ea6e37625ea79fce7f32891d139",
    "FC_TASKROLE_NAME": "taskrole",
    "FC_TASK_INDEX": "0",
    "FC_POD_UID": FIRST_UID,
}


def port_annotation(counts: dict[str, int], start: int = 20000, end: int = 40000) -> dict[str, str]:
    """The annotation of a pod whose ports are hashes."""
    ports = {label: {"count": count} for label, count in counts.items()}
    return ports_as(schedulePortStart=start, schedulePortEnd=end, ports=ports)


def ports_as(**spec: Any) -> dict[str, str]:
    return {"rest-server/port-scheduling-spec": json.dumps(spec)}


def role(name: str, annotations: dict[str, str], number: int = 1) -> dict[str, Any]:
    return {"name": name, "taskNumber": number, "task": {"pod": {"metadata": {"annotations": annotations}}}}


def status(name: str, *tasks: tuple[str | None, str | None]) -> dict[str, Any]:
    """The status of a role: the UID and host of each task's pod."""
    listed = [
        {"index": index, "state": "AttemptRunning", "attemptStatus": {"podUID": uid, "podHostIP": host, "podIP": host}}
        for index, (uid, host) in enumerate(tasks)
    ]
    return {"name": name, "taskStatuses": listed}


def framework(
    roles: list[dict[str, Any]], statuses: list[dict[str, Any]] | None, config: str = CONFIG, packed: bool = False
) -> dict[str, Any]:
    """The whole object; `packed` statuses are compressed, as those of large jobs."""
    stored: dict[str, Any] = {"taskRoleStatuses": statuses}
    if packed:
        data = base64.b64encode(gzip.compress(json.dumps(statuses).encode())).decode()
        stored = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": data}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {
            "name": VARIABLES["FC_FRAMEWORK_NAME"],
            "namespace": "default",
            "labels": {"userName": "test_user", "virtualCluster": "default"},
            "annotations": {"jobName": "test", "config": config},
        },
        "spec": {"executionType": "Start", "taskRoles": roles},
        "status": {"state": "AttemptRunning", "attemptStatus": {"id": 0, **stored}},
    }


def checked_example(packed: bool = False) -> dict[str, Any]:
    """The job of two roles whose variables are known."""
    roles = [
        role("taskrole", port_annotation({"tcp": 3, "udp": 3, "ssh": 1, "http": 1})),
        role("taskrole1", port_annotation({"mpi": 2, "tensorflow": 1, "ssh": 1, "http": 1})),
    ]
    statuses = [status("taskrole", (FIRST_UID, FIRST_HOST)), status("taskrole1", (SECOND_UID, SECOND_HOST))]
    return framework(roles, statuses, packed=packed)
