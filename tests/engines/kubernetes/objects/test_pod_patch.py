"""The site's patch for the pods of tasks."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kedge.engines.kubernetes.objects import pod_patch
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun

from .test_task_pod import container, pod

PLAIN = pod()


def patched(patch: Any) -> dict[str, Any]:
    return pod_patch.patched(PLAIN, KubernetesOptions(pod_patch=json.dumps(patch)))


def of_container(name: str, **keys: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, **keys}]}}


def test_a_site_may_add_what_has_no_setting() -> None:
    before = copy.deepcopy(PLAIN)
    found = patched(
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"annotations": {"cni/network": "fast"}, "labels": {"team": "vision"}},
            "spec": {
                "runtimeClassName": "nvidia", "schedulerName": "volcano", "activeDeadlineSeconds": 86400,
                "initContainers": [{"name": "tune", "image": "tune:1"}],
                "containers": [
                    {"name": "app", "env": [{"name": "NCCL_IB_HCA", "value": "mlx5"}],
                     "volumeMounts": [{"name": "models", "mountPath": "/models"}]},
                    {"name": "agent", "resources": {"limits": {"cpu": "1"}}},
                    {"name": "exporter", "image": "exporter:1"},
                ],
                "volumes": [{"name": "models", "hostPath": {"path": "/models"}}],
            },
        }
    )  # fmt: skip
    assert [each["name"] for each in found["spec"]["containers"]] == ["app", "agent", "exporter"]
    assert {each["name"] for each in found["spec"]["initContainers"]} == {"prepare", "tune"}
    assert {"name": "models", "mountPath": "/models"} in container(found, "app")["volumeMounts"]
    assert container(found, "agent")["resources"]["limits"]["cpu"] == "1"
    assert found["metadata"]["labels"]["team"] == "vision"
    assert found["metadata"]["labels"].items() >= before["metadata"]["labels"].items()
    assert before == PLAIN, "the pod itself is not changed"


def test_without_a_patch_nothing_changes() -> None:
    assert pod_patch.patched(PLAIN, KubernetesOptions()) == PLAIN


MOUNTS = container(PLAIN, "app")["volumeMounts"]
REFUSED = {
    "the label kedge.io/run": {"metadata": {"labels": {"kedge.io/run": "other"}}},
    "the label app.kubernetes.io/managed-by": {"metadata": {"labels": None}},
    "the annotation kedge.io/run-id": {"metadata": {"annotations": {"$patch": "replace"}}},
    "metadata.name": {"metadata": {"name": "other"}},
    "metadata.ownerReferences": {"metadata": {"ownerReferences": []}},
    "spec.restartPolicy": {"spec": {"restartPolicy": "Always"}},
    "spec.hostname": {"spec": {"hostname": None}},
    "spec.terminationGracePeriodSeconds": {"spec": {"terminationGracePeriodSeconds": 1}},
    "spec.initContainers[prepare]": {"spec": {"initContainers": [{"name": "prepare", "$patch": "delete"}]}},
    "spec.containers[app],": {"spec": {"containers": None}},
    "spec.containers[agent],": {"spec": {"containers": [{"name": "agent", "$patch": "delete"}]}},
    "spec.containers[app].command": of_container("app", command=["sleep"]),
    "spec.containers[app].args": of_container("app", args=["x"]),
    "spec.containers[app].image": of_container("app", image="mirror/app"),
    "spec.containers[app].restartPolicy": of_container("app", restartPolicy="Always"),
    "spec.containers[agent].image": of_container("agent", image="x"),
    "spec.containers[agent].env[KEDGE_NODE]": of_container("agent", env=[{"name": "KEDGE_NODE", "$patch": "delete"}]),
    "spec.containers[app].volumeMounts[/usr/local/pai]": of_container(
        "app", volumeMounts=[{"mountPath": "/usr/local/pai", "name": "pai", "readOnly": True}]
    ),
    "spec.containers[agent].volumeMounts[/kedge/token]": of_container(
        "agent", volumeMounts=[{"mountPath": "/kedge/token", "$patch": "delete"}]
    ),
    "spec.volumes[pai]": {"spec": {"volumes": [{"name": "pai", "emptyDir": {"medium": "Memory"}}]}},
    "spec.volumes[token]": {"spec": {"volumes": [{"name": "token", "$patch": "delete"}]}},
    "spec: there is no directive $other": {"spec": {"$other": 1}},
    "spec.containers: an item has no name": {"spec": {"containers": [{"image": "x"}]}},
    "spec.volumes: its items are mappings": {"spec": {"volumes": ["x"]}},
    "spec: $patch is replace, delete or merge": {"spec": {"$patch": "other"}},
    "status is nothing that can be patched": {"status": {}},
    "kind is nothing": {"kind": "Job", "spec": {}},
    "spec is not a mapping": {"spec": []},
    "it is not a mapping": [],
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_kedge_needs_stays_as_it_is(problem: str) -> None:
    with pytest.raises(CannotRun) as caught:
        patched(REFUSED[problem])
    assert str(caught.value).startswith("the site's patch for pods (engines.kubernetes.pod-patch): ")
    assert problem in str(caught.value)


DELETED = {"$patch": "delete"}


@pytest.mark.parametrize(
    "patch", [{"metadata": DELETED}, {"spec": DELETED}, DELETED, {"spec": {"containers": "x", "volumes": {"a": 1}}}]
)
def test_whole_parts_cannot_be_deleted(patch: Any) -> None:
    with pytest.raises(CannotRun, match="pod-patch"):
        patched(patch)


def test_the_pod_of_a_task_has_the_patch() -> None:
    options = KubernetesOptions(pod_patch=json.dumps({"spec": {"schedulerName": "volcano"}}))
    assert pod(options=options)["spec"]["schedulerName"] == "volcano"
