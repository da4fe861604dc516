"""Where pods may run, and who waits for whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kedge.engines.base import Task
from kedge.engines.kubernetes.objects import quantities, scheduling
from kedge.engines.kubernetes.objects.driver_job import driver_job
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions

from ..jobs import planned, role
from .test_task_pod import OWNER, PLACE, pod

GANG = planned({"ps": role(1, 1, 100), "worker": role(2, 1, 100)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu", {"key": "gpu", "operator": "Exists"}),
        ("gpu:NoSchedule", {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
        ("a.b/c=d", {"key": "a.b/c", "operator": "Equal", "value": "d"}),
        ("a.b/c=d:NoExecute", {"key": "a.b/c", "operator": "Equal", "value": "d", "effect": "NoExecute"}),
        ("a=", {"key": "a", "operator": "Equal", "value": ""}),
    ],
)
def test_tolerations(text: str, expected: dict[str, str]) -> None:
    assert scheduling.toleration(text) == expected


def test_what_a_site_and_a_user_say_about_nodes_holds_for_tasks() -> None:
    options = KubernetesOptions(node_selector="zone=a,gpu=b", tolerations=["gpu"], priority_class="low")
    spec = pod(options=options)["spec"]
    assert spec["nodeSelector"] == {"zone": "a", "gpu": "b"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert spec["priorityClassName"] == "low"
    driver = driver_job(OWNER, options, "image")["spec"]["template"]["spec"]
    assert "nodeSelector" not in driver
    assert driver["priorityClassName"] == "low"
    assert {each.get("tolerationSeconds") for each in driver["tolerations"]} == {30, None}
    assert {"key": "gpu", "operator": "Exists"} in driver["tolerations"], "all nodes may have that taint"


def test_drivers_may_have_nodes_of_their_own() -> None:
    options = KubernetesOptions(node_selector="gpu=b", driver_node_selector="pool=cpu")
    driver = driver_job(OWNER, options, "image")["spec"]["template"]
    assert driver["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert [key for key in driver["metadata"]["labels"] if "kueue" in key] == [], "it is in no queue"


def test_a_gang_is_one_group_of_its_queue_and_another_one_in_each_attempt() -> None:
    options = KubernetesOptions(queue="team")
    groups = []
    for attempt in (0, 1):
        pods = [task_pod(GANG, Task(*task), attempt, 0, options, PLACE)["metadata"] for task in GANG.tasks()]
        assert {each["labels"]["kueue.x-k8s.io/queue-name"] for each in pods} == {"team"}
        assert {each["annotations"]["kueue.x-k8s.io/pod-group-total-count"] for each in pods} == {"3"}
        (group,) = {each["labels"]["kueue.x-k8s.io/pod-group-name"] for each in pods}
        groups.append(group)
    assert len(set(groups)) == 2


def test_tasks_that_are_no_gang_wait_each_by_themselves() -> None:
    found = pod(replace(GANG, gang=False), KubernetesOptions(queue="team"))["metadata"]
    assert found["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert [key for key in (*found["labels"], *found["annotations"]) if "group" in key] == []


def test_without_a_queue_nothing_speaks_of_one() -> None:
    found = pod(GANG)["metadata"]
    assert [key for key in (*found["labels"], *found["annotations"]) if "kueue" in key] == []


@pytest.mark.parametrize(
    ("cores", "text"), [(1, "1"), (4.0, "4"), (0.5, "500m"), (1.5, "1500m"), (0.1 + 0.2, "300m"), (0.0001, "1m")]
)
def test_cores(cores: float, text: str) -> None:
    assert quantities.cpu(cores) == text
