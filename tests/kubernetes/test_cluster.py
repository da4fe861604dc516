"""The cluster of these tests does what a Kubernetes cluster does, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.dropin.real_registry import registry
from tests.slurm.cluster import is_alive

from kedge.testing.wait import wait_until

from . import leftovers
from .addresses import NODES, Addresses
from .cluster import DEADLINE
from .namespaces import Namespace
from .own_cluster import GPUS, OwnCluster

SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
pytestmark = pytest.mark.usefixtures("own_cluster")
# The only container may be gone with its node: a pod of a controller is evicted without --force.
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": True, "blockOwnerDeletion": False}


def on(node: str) -> dict[str, Any]:
    """Keys of a pod that runs on this node, once the scheduler has let it."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def test_pods_run_on_both_nodes_and_reach_each_other_and_the_api(namespace: Namespace, cluster: OwnCluster) -> None:
    for node in NODES:
        namespace.run(node, "echo hello | nc -l -p 4000; sleep 60", **on(node))
    for node in NODES:
        namespace.wait_for_phase(node, "Running")
    addresses = [namespace.pod(node)["status"]["podIP"] for node in NODES]
    server = cluster.addresses.server
    said = [
        namespace.kubectl(
            "exec", node, "--", "sh", "-c", f"nc {peer} 4000 < /dev/null; nc -w 5 {server} 443 </dev/null && echo api"
        )
        for node, peer in zip(NODES, reversed(addresses), strict=True)
    ]
    assert said == ["hello\napi\n"] * 2


def test_a_pod_has_an_exit_code_a_message_and_gpus(namespace: Namespace) -> None:
    gpus = {"limits": {"nvidia.com/gpu": GPUS, "memory": "64Mi", "cpu": 40}}
    namespace.run("pod", "echo out; echo why > /dev/termination-log; exit 3", resources=gpus)
    namespace.wait_for_phase("pod", "Failed")
    ended = namespace.pod("pod")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (3, "why\n")
    assert namespace.log("pod") == "out\n"


def test_a_pod_that_fits_nowhere_says_so(namespace: Namespace) -> None:
    namespace.run("pod", "true", resources={"limits": {"nvidia.com/gpu": GPUS + 1}})
    wait_until(lambda: "Insufficient nvidia.com/gpu" in json.dumps(namespace.pod("pod")["status"]), DEADLINE)


def test_images_come_from_a_registry_and_a_missing_one_is_an_error(namespace: Namespace, tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    with registry(tmp_path, tmp_path / "storage") as address:
        for command in (["tag", "localhost/kedge/busybox:1"], ["push", "--tls-verify=false"], ["rmi"]):
            subprocess.run(["podman", *command, f"{address}/team/busybox:1"], check=True, capture_output=True)
        namespace.run("there", "true", image=f"{address}/team/busybox:1")
        namespace.wait_for_phase("there", "Succeeded")
        namespace.run("missing", "true", image=f"{address}/team/missing:1")
        seen = ("ErrImagePull", "ImagePullBackOff")
        wait_until(lambda: any(each in seen for each in namespace.cluster.waiting("missing", namespace.name)), DEADLINE)


def test_its_user_may_use_only_one_namespace(namespace: Namespace) -> None:
    assert namespace.kubectl("auth", "can-i", "create", "pods", user=True).strip() == "yes"
    namespace.kubectl("create", "configmap", "own", user=True)
    for refused in (
        ["get", "nodes"],
        ["get", "pods", "--namespace=default"],
        ["create", "role", "x", "--verb=get", "--resource=pods"],
    ):
        assert "orbidden" in namespace.kubectl(*refused, user=True, check=False)


def test_the_machine_keeps_its_sysctls(cluster: OwnCluster) -> None:
    """A kubelet sets them for the machine, and tests that are refused memory would then get it."""
    copies = {key: (cluster.folder / NODES[0] / "sysctls" / key.replace("/", ".")).read_text() for key in SYSCTLS}
    assert copies["vm/overcommit_memory"] == "1"
    assert copies["kernel/panic"] == "10"
    now = {key: Path("/proc/sys", key).read_text() for key in SYSCTLS}
    assert now["kernel/panic"] != "10\n"
    assert now["vm/overcommit_memory"] != "1\n"


def test_a_node_without_kubelet_is_not_ready_and_comes_back(namespace: Namespace, cluster_alone: OwnCluster) -> None:
    namespace.run("pod", "sleep 600", **on("node2"))
    namespace.wait_for_phase("pod", "Running")
    cluster_alone.stop_kubelet("node2")
    wait_until(lambda: not cluster_alone.ready("node2"), DEADLINE, "node2 not ready")
    wait_until(lambda: "deletionTimestamp" in namespace.pod("pod")["metadata"], DEADLINE, "the end of its pod")
    assert namespace.phase("pod") == "Running"
    assert cluster_alone.ready("node1")
    cluster_alone.heal()
    wait_until(lambda: namespace.pod("pod") == {}, DEADLINE, "the pod is gone")


def test_a_lost_node_takes_its_processes_along(namespace: Namespace, cluster_alone: OwnCluster) -> None:
    for node in NODES:
        namespace.run(node, "sleep 600", **on(node))
        namespace.wait_for_phase(node, "Running")
    before = len(cluster_alone.processes("node2"))
    assert before >= 2  # the pod's sandbox and its container
    cluster_alone.lose_node("node2")
    assert cluster_alone.processes("node2") == []
    assert len(cluster_alone.processes("node1")) >= 2
    cluster_alone.heal()
    namespace.run("again", "true", **on("node2"))
    namespace.wait_for_phase("again", "Succeeded")


def test_a_drained_node_evicts_its_pods(namespace: Namespace, cluster_alone: OwnCluster) -> None:
    namespace.kubectl("create", "configmap", "owner")
    uid = namespace.get("configmap", "owner")["metadata"]["uid"]
    namespace.run("pod", "sleep 600", **on("node2"))
    owned = {"metadata": {"ownerReferences": [{**OWNER, "uid": uid}]}}
    namespace.kubectl("patch", "pod", "pod", f"--patch={json.dumps(owned)}")
    namespace.wait_for_phase("pod", "Running")
    assert "pod/pod evicted" in cluster_alone.drain("node2")
    assert namespace.pod("pod") == {}
    assert not cluster_alone.ready("node2")


def test_pods_survive_the_api_server(namespace: Namespace, cluster_alone: OwnCluster) -> None:
    namespace.run("pod", "until [ -e /go ]; do sleep 0.1; done; echo done")
    namespace.wait_for_phase("pod", "Running")
    cluster_alone.stop_api_server()
    assert "refused" in namespace.kubectl("get", "pods", check=False)
    cluster_alone.start_api_server()
    wait_until(lambda: namespace.kubectl("exec", "pod", "--", "touch", "/go", check=False) == "", DEADLINE)
    namespace.wait_for_phase("pod", "Succeeded")
    assert namespace.log("pod") == "done\n"


BODY = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.kubernetes.own_cluster import OwnCluster
cluster = OwnCluster(Path(sys.argv[2]))
cluster.start(os.getpid())
print("started", flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_pytest_is_killed(cluster: OwnCluster, namespace: Namespace) -> None:
    other = OwnCluster(Path(tempfile.mkdtemp(), "cluster"))  # a short name, as it is part of the names of sockets
    argv = [sys.executable, "-c", BODY, str(Path(__file__).parents[2]), str(other.folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        addresses = other.addresses
        assert addresses != cluster.addresses
        pids = [int(file.read_text()) for file in other.folder.glob("*.pid")]
        assert all(map(is_alive, pids)), other.logs()
        os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not other.folder.exists(), DEADLINE, "the removal of the cluster's folder")
    other.folder.parent.rmdir()
    assert not any(map(is_alive, pids))
    assert not any(folder.exists() for folder in leftovers.cgroup_folders(addresses.cgroup()))
    assert _links(addresses) == []
    assert len(_links(cluster.addresses)) >= 1
    namespace.run("pod", "true")
    namespace.wait_for_phase("pod", "Succeeded")


def _links(addresses: Addresses) -> list[str]:
    return [
        name for name in os.listdir("/sys/class/net") if name.removesuffix("n1").removesuffix("n2") == addresses.bridge
    ]
