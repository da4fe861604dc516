"""The labels, annotations and owner of a run's objects.

Labels select objects, so their values are names of `names`; annotations hold the texts as the user wrote them.
"""

from __future__ import annotations

from kedge.light.types import Any, Mapping, NamedTuple

# Labels.
MANAGED_BY = "app.kubernetes.io/managed-by"
KEDGE = "kedge"  # its value
RUN = "kedge.io/run"
COMPONENT = "kedge.io/component"
JOB_ATTEMPT = "kedge.io/job-attempt"  # this one and the next: of the pods of tasks
TASK_ATTEMPT = "kedge.io/task-attempt"
TASK_INDEX = "kedge.io/task-index"
TASK_ROLE = "kedge.io/task-role"  # as it stands in names

# Values of COMPONENT.
ANCHOR = "anchor"
DRIVER = "driver"
TASK = "task"
LOG = "log"
CODE = "code"
TOKENS = "tokens"
ADDRESS = "address"
SERVICE = "service"
PULL = "pull"
LEASE = "lease"
NETWORK = "network"
READER = "reader"  # a short-lived pod that reads the files of a run that has ended
COMPONENTS = (ANCHOR, DRIVER, TASK, LOG, CODE, TOKENS, ADDRESS, SERVICE, PULL, LEASE, NETWORK, READER)

# Annotations.
RUN_ID = "kedge.io/run-id"
ROLE = "kedge.io/role"
USER = "kedge.io/user"
JOB = "kedge.io/job"
REQUESTS = "kedge.io/requests"  # of the anchor: what the owner asks of the driver
FETCHED = "kedge.io/fetched"  # of the anchor: the client has everything
ENDED = "kedge.io/ended"  # of the anchor: how the job ended
TASK_USERS = "kedge.io/task-users"  # of the driver's Job: who owns the files of tasks, if that is not the driver
INCOMPLETE = "kedge.io/incomplete"  # a label of the anchor until everything of the run is there
ANY_USER = "any"  # its value: root, too


class ObjectOwner(NamedTuple):
    """What all objects of a run carry: the name of the run in its namespace, the uid of its anchor (empty for the
    anchor itself, which exists before there is one), and the texts of the annotations."""

    name: str
    uid: str
    run_id: str
    user: str
    job: str


def of_run(name: str) -> dict[str, str]:
    """The labels that select all objects of a run."""
    return {MANAGED_BY: KEDGE, RUN: name}


def of_component(name: str, component: str) -> dict[str, str]:
    """The labels that select all objects of one kind of a run."""
    return {**of_run(name), COMPONENT: component}


def of_task(name: str, role: str, index: int, job_attempt: int, task_attempt: int) -> dict[str, str]:
    """The labels of a task's pod; `role` as it stands in names."""
    return {
        **of_component(name, TASK),
        TASK_ROLE: role,
        TASK_INDEX: str(index),
        JOB_ATTEMPT: str(job_attempt),
        TASK_ATTEMPT: str(task_attempt),
    }


def texts(owner: ObjectOwner) -> dict[str, str]:
    """The annotations of every object of a run."""
    return {RUN_ID: owner.run_id, USER: owner.user, JOB: owner.job}


def owner_reference(name: str, uid: str) -> dict[str, Any]:
    """The reference to the anchor. It is a controller, so that nodes can be drained of the run's pods, and all objects
    go with it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def metadata(owner: ObjectOwner, name: str, component: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The metadata of an object of a run: its owner is the anchor, unless it is the anchor."""
    made: dict[str, Any] = {
        "name": name,
        "labels": dict(labels or of_component(owner.name, component)),
        "annotations": texts(owner),
    }
    return made | ({"ownerReferences": [owner_reference(owner.name, owner.uid)]} if owner.uid else {})
