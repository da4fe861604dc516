"""The pod of a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kedge.engines.base import Task
from kedge.engines.kubernetes.objects import pod_paths
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.link.launch import AgentOrders
from kedge.plan.model import Plan

from ..jobs import planned, role

OWNER = ObjectOwner("train-abc2345", "uid-1", "train-abc2345", "ada", "train")
PLACE = PodPlace(OWNER, "registry.example.org/kedge-runtime:1", ("10.0.0.9",), 7000, "CERT", 5, 2)


def pod(
    plan: Plan | None = None, options: KubernetesOptions | None = None, place: PodPlace = PLACE, index: int = 0
) -> dict[str, Any]:
    made = plan or planned({"worker": role(2, 4, 8192, 1)})
    return task_pod(made, Task(made.roles[0].name, index), 0, 0, options or KubernetesOptions(), place)


def container(found: dict[str, Any], name: str) -> dict[str, Any]:
    spec = found["spec"]
    (one,) = (each for each in [*spec["initContainers"], *spec["containers"]] if each["name"] == name)
    return dict(one)


def changed(plan: Plan, **changes: Any) -> Plan:
    """The plan with another first role."""
    return replace(plan, roles=(replace(plan.roles[0], **changes), *plan.roles[1:]))


def test_the_users_container_is_the_first_one_and_starts_the_supervisor() -> None:
    spec = pod()["spec"]
    assert [each["name"] for each in spec["containers"]] == ["app", "agent"]
    app = spec["containers"][0]
    assert tuple(app["command"]) == pod_paths.SUPERVISOR_COMMAND
    assert app["image"] == "registry.example.org/vision/torch:2.3"
    assert "env" not in app
    assert spec["restartPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 30 + 90


def test_requests_are_limits() -> None:
    for each in (container(pod(), name) for name in ("prepare", "app", "agent")):
        assert each["resources"]["requests"] == each["resources"]["limits"]
    assert container(pod(), "app")["resources"]["limits"] == {"cpu": "4", "memory": "8192Mi", "nvidia.com/gpu": "1"}


def test_resource_names_are_those_of_the_site() -> None:
    plan = changed(planned({"worker": role(1, 1.5, 100, 2)}), infiniband=True)
    limits = container(pod(plan, KubernetesOptions(gpu="amd.com/gpu", rdma="rdma/ib")), "app")["resources"]["limits"]
    assert limits == {"cpu": "1500m", "memory": "100Mi", "amd.com/gpu": "2", "rdma/ib": "1"}


def test_a_task_without_gpus_sees_none() -> None:
    plan = planned({"worker": role(1, 1, 100)})
    assert container(pod(plan), "app")["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]


def test_the_agent_gets_its_orders() -> None:
    agent = container(pod(index=1), "agent")
    (value,) = (each["value"] for each in agent["env"] if each["name"] == pod_paths.ORDERS_VARIABLE)
    orders = AgentOrders.from_line(value.encode())
    assert (orders.role, orders.attempt, orders.tokens, orders.mirrored) == ("worker", 0, [], 5)
    assert agent["command"][-1] == "1"
    assert {"name": "KEDGE_NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}} in (
        agent["env"]
    )


def test_only_the_agent_has_the_token_of_the_task() -> None:
    found = pod(index=1)
    users = [name for name in ("prepare", "app", "agent") if "token" in _volumes(container(found, name))]
    assert users == ["agent"]
    (volume,) = (each for each in found["spec"]["volumes"] if each["name"] == "token")
    assert volume["secret"]["secretName"] == "train-abc2345-a0"
    assert volume["secret"]["items"] == [{"key": "worker-1", "path": "token"}]


def _volumes(one: dict[str, Any]) -> set[str]:
    return {each["name"] for each in one["volumeMounts"]}


def test_an_image_that_is_in_no_registry_cannot_run() -> None:
    plan = changed(planned({"worker": role(1, 1, 100)}), pin="id:sha256:12")
    with pytest.raises(CannotRun, match="no node can pull it"):
        pod(plan)


def test_a_locked_image_is_asked_for_by_its_digest() -> None:
    plan = changed(planned({"worker": role(1, 1, 100)}), pin="sha256:12")
    assert container(pod(plan), "app")["image"] == "registry.example.org/vision/torch@sha256:12"


def test_no_text_of_the_job_is_taken_for_a_variable_of_the_container() -> None:
    place = PLACE._replace(certificate="$(KEDGE_NODE) $$")
    value = container(pod(place=place), "agent")["env"][1]["value"]
    assert "$$(KEDGE_NODE) $$" in value
