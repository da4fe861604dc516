"""Kubernetes' strategic merge patch. Each expectation is also asked of kubectl, which patches without a cluster."""

from __future__ import annotations

import copy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.engines.kubernetes.objects.strategic_merge import BadPatch, merged

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}, "finalizers": ["x/one", "x/two"]},
    "spec": {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "one", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "first"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["one"]}],
        "containers": [
            {
                "name": "app",
                "image": "app:1",
                "args": ["a", "b"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "volumeMounts": [{"name": "pai", "mountPath": "/pai"}, {"name": "shm", "mountPath": "/dev/shm"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "securityContext": {"capabilities": {"drop": ["NET_RAW", "MKNOD"]}},
            },
            {"name": "agent", "image": "agent:1"},
        ],
        "volumes": [{"name": "pai", "emptyDir": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}],
    },
}


def of_app(**keys: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "app", **keys}]}}


PATCHES: dict[str, dict[str, Any]] = {
    "maps": {"metadata": {"labels": {"b": "3", "c": "4"}}, "spec": {"nodeSelector": {"gpu": "a100"}}},
    "null": {"metadata": {"labels": {"a": None}}, "spec": {"nodeSelector": None, "hostname": None}},
    "containers": {"spec": {"containers": [{"name": "agent", "image": "agent:2"}, {"name": "more", "image": "m"}]}},
    "env": of_app(env=[{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]),
    "mounts": {
        "spec": {
            "containers": [
                {"name": "app", "volumeMounts": [{"mountPath": "/pai", "name": "pai", "readOnly": True},
                                                 {"mountPath": "/data", "name": "data"}]}
            ],
            "volumes": [{"name": "data", "nfs": {"server": "nas", "path": "/"}}],
        }
    },
    "ports": {"spec": {"containers": [{"name": "app", "ports": [{"containerPort": 80, "name": "http"},
                                                               {"containerPort": 81}]}]}},
    "atomic lists": {
        "spec": {
            "tolerations": [{"key": "two", "operator": "Exists"}],
            "containers": [{"name": "app", "args": ["c"], "securityContext": {"capabilities": {"drop": ["ALL"]}}}],
        }
    },
    "pull secrets": {"spec": {"imagePullSecrets": [{"name": "second"}]}},
    "host aliases": {"spec": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["two"]}, {"ip": "10.0.0.2"}]}},
    "spread": {"spec": {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}]}},
    "delete an item": {"spec": {"containers": [{"name": "app", "env": [{"name": "A", "$patch": "delete"}]}]}},
    "delete and add": {"spec": {"volumes": [{"name": "shm", "$patch": "delete"}, {"name": "new", "emptyDir": {}}]}},
    "replace a list": {"spec": {"volumes": [{"$patch": "replace"}, {"name": "new", "emptyDir": {}}]}},
    "replace a map": of_app(resources={"$patch": "replace", "limits": {"cpu": "9"}}),
    "delete a map": {"spec": {"nodeSelector": {"$patch": "delete"}}},
    "retain keys": {
        "spec": {"volumes": [{"name": "shm", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/d"}}]}
    },
    "volume of another kind": {"spec": {"volumes": [{"name": "shm", "emptyDir": None, "hostPath": {"path": "/d"}}]}},
    "primitive lists": {"metadata": {"finalizers": ["x/three", "x/one"]}},
    "delete from a primitive list": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/one"]}},
    "affinity": {
        "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}}}
    },
    "order": {"spec": {"$setElementOrder/containers": [{"name": "agent"}, {"name": "app"}],
                       "containers": [{"name": "agent", "image": "agent:3"}]}},
    "security": {"spec": {"securityContext": {"fsGroup": 5}, "runtimeClassName": "gvisor"}},
}  # fmt: skip


def normal(value: Any) -> Any:
    """Without what kubectl leaves out: empty values."""
    if isinstance(value, dict):
        kept = {key: normal(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, {}, [])}
    return [normal(each) for each in value] if isinstance(value, list) else value


def kubectl_of(folder: Path, patch: dict[str, Any]) -> Any:
    kubectl = shutil.which("kubectl") or pytest.skip("there is no kubectl")
    (folder / "pod.yaml").write_text(yaml.safe_dump(POD))
    (folder / "patch.yaml").write_text(yaml.safe_dump(patch))
    command = [kubectl, "patch", "--local", "--type=strategic", f"-f{folder}/pod.yaml", "-oyaml",
               "--patch", (folder / "patch.yaml").read_text()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return yaml.safe_load(done.stdout)


def shown(found: Any) -> Any:
    """Without what the codec of kubectl adds."""
    head = {key: value for key, value in found["metadata"].items() if key != "creationTimestamp"}
    return normal({**found, "metadata": head, "status": None})


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_has_the_same_result_as_with_kubectl(name: str, tmp_path: Path) -> None:
    expected = shown(kubectl_of(tmp_path, PATCHES[name]))
    assert shown(merged(POD, PATCHES[name])) == expected


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"spec": {"$patch": "other"}}, r"spec: \$patch is replace, delete or merge, not 'other'"),
        ({"spec": {"$unknown": []}}, r"spec: there is no directive \$unknown"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers: an item has no name"),
        ({"spec": {"containers": [{"name": ["x"]}]}}, "spec.containers: an item has no name"),
        ({"spec": {"containers": [{"$patch": "merge"}]}}, r"spec.containers: \$patch of an item is replace or delete"),
        ({"spec": {"containers": [1]}}, "spec.containers: its items are mappings"),
        (of_app(env=[{"value": "x"}]), r"spec.containers\[app\].env: an item has no name"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}, "must be a list"),
        ({"spec": {"volumes": [{"name": "shm", "$retainKeys": ["name"], "hostPath": {}}]}}, "must list all keys"),
    ],
)
def test_what_kubernetes_refuses_is_refused(patch: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadPatch, match=problem):
        merged(POD, patch)


def test_neither_the_pod_nor_the_patch_changes() -> None:
    pod, patches = copy.deepcopy(POD), copy.deepcopy(PATCHES)
    for patch in PATCHES.values():
        merged(POD, patch)
    assert (pod, patches) == (POD, PATCHES)
