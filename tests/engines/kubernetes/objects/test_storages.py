"""The storages of a job as volumes of its pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kedge.engines.base import Task
from kedge.engines.kubernetes.objects import storages, task_volumes
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Mount, RemoteStorage, VolumeClaim

from ..jobs import planned, role
from .test_task_pod import PLACE, container

NFS = RemoteStorage("nfs", "nas", "/export/me")
CIFS = RemoteStorage("cifs", "nas", "/share/me", "vers=3.0", "/etc/kedge/cred")
HOST = KubernetesOptions(host_paths=["/lustre/", "/data"])


def plan(*mounts: Mount) -> Plan:
    return replace(planned({"worker": role(1, 1, 100)}), mounts=mounts)


def mounted(options: KubernetesOptions, *mounts: Mount) -> list[tuple[Any, Any]]:
    """The volumes and mounts that the storages add to the pod of a task."""
    pod = task_pod(plan(*mounts), Task("worker", 0), 0, 0, options, PLACE)
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    paths = {mount.path for mount in mounts}
    found = [each for each in container(pod, "app")["volumeMounts"] if each["mountPath"] in paths]
    return [(volumes[each["name"]], each) for each in found]


@pytest.mark.parametrize(
    ("mount", "source", "below"),
    [
        (Mount("a", "/a", claim=VolumeClaim("c")), {"persistentVolumeClaim": {"claimName": "c"}}, None),
        (Mount("a", "/a", claim=VolumeClaim("c", "x/y")), {"persistentVolumeClaim": {"claimName": "c"}}, "x/y"),
        (Mount("a", "/a", remote=NFS), {"nfs": {"server": "nas", "path": "/export/me"}}, None),
        (Mount("a", "/a", folder="/mnt/nas", remote=NFS), {"nfs": {"server": "nas", "path": "/export/me"}}, None),
        (Mount("a", "/a", folder="/lustre/x"), {"hostPath": {"path": "/lustre/x", "type": "Directory"}}, None),
        (Mount("a", "/a", folder="/data"), {"hostPath": {"path": "/data", "type": "Directory"}}, None),
        (
            Mount("a", "/a", folder="/lustre/x", remote=NFS._replace(options="vers=4.2")),
            {"hostPath": {"path": "/lustre/x", "type": "Directory"}}, None,
        ),
        (Mount("a", "/a", folder="/x", remote=CIFS, claim=VolumeClaim("c")),
         {"persistentVolumeClaim": {"claimName": "c"}}, None),
    ],
)  # fmt: skip
def test_where_a_storage_comes_from(mount: Mount, source: dict[str, Any], below: str | None) -> None:
    ((volume, found),) = mounted(HOST, mount)
    assert volume == {"name": "claim-c" if mount.claim else "storage-a", **source}
    assert found["mountPath"] == "/a"
    assert found.get("subPath") == below
    assert "readOnly" not in found


def test_a_storage_that_is_read_only() -> None:
    ((_, claim), (nfs, mount)) = mounted(
        HOST,
        Mount("a", "/a", read_only=True, claim=VolumeClaim("c")),
        Mount("b", "/b", read_only=True, remote=NFS),
    )
    assert claim["readOnly"] is True
    assert mount["readOnly"] is nfs["nfs"]["readOnly"] is True


def volumes_of(options: KubernetesOptions, *mounts: Mount) -> dict[str, list[str]]:
    """The paths in the task's container at which each volume is mounted, without kedge's own volumes."""
    pod = task_pod(plan(*mounts), Task("worker", 0), 0, 0, options, PLACE)
    names = [each["name"] for each in pod["spec"]["volumes"] if "-" in each["name"]]
    found = container(pod, "app")["volumeMounts"]
    assert len(names) == len(set(names))
    return {name: [each["mountPath"] for each in found if each["name"] == name] for name in names}


def test_a_storage_at_two_paths_is_one_volume() -> None:
    nfs = Mount("A_1", "/a", remote=NFS)
    ((_, paths),) = volumes_of(HOST, nfs, nfs._replace(path="/b")).items()
    assert paths == ["/a", "/b"]


def test_all_of_a_claim_is_one_volume() -> None:
    """A kubelet waits for ever for the second one of the same claim."""
    found = volumes_of(
        HOST._replace(outputs_volume="c"),
        Mount("a", "/a", claim=VolumeClaim("c", "x")),
        Mount("b", "/b", claim=VolumeClaim("c")),
        Mount("other", "/other", claim=VolumeClaim("d")),
    )
    assert found == {
        "claim-c": ["/usr/local/pai/output", "/usr/local/pai/job-dir", "/a", "/b"], "claim-d": ["/other"],
    }  # fmt: skip


def test_names_that_differ_only_in_case_are_two_volumes() -> None:
    assert len(volumes_of(HOST, Mount("a", "/a", folder="/data/1"), Mount("A", "/b", folder="/data/2"))) == 2


RESTRICTED = KubernetesOptions(restricted=True, host_paths=["/lustre"])


@pytest.mark.parametrize(
    ("options", "mount", "problem"),
    [
        (HOST, Mount("a", "/a", remote=CIFS), "the storage a is cifs //nas/share/me, which pods cannot mount"),
        (HOST, Mount("a", "/a", remote=NFS._replace(options="vers=4.2")), r"pods mount NFS without options \(vers=4.2"),
        (HOST, Mount("a", "/a", folder="/home/ada"), "does not let pods mount from their nodes .*host-paths"),
        (HOST, Mount("a", "/a", folder="/lustre2"), "host-paths"),
        (KubernetesOptions(), Mount("a", "/a", folder="/lustre/x"), "host-paths"),
        (RESTRICTED, Mount("a", "/a", folder="/lustre/x"), "Pod Security standard restricted cannot mount"),
        (RESTRICTED, Mount("a", "/a", remote=NFS), "Pod Security standard restricted cannot mount"),
    ],
)
def test_what_pods_cannot_mount(options: KubernetesOptions, mount: Mount, problem: str) -> None:
    with pytest.raises(CannotRun, match=problem) as caught:
        storages.check(plan(mount), options)
    assert str(caught.value).endswith(
        "make a PersistentVolumeClaim for it in the namespace and set storages.a.pvc in the site's file"
    )


def test_a_mount_path_with_a_colon() -> None:
    with pytest.raises(CannotRun, match="nothing at a path with a colon: /a:b"):
        storages.check(plan(Mount("a", "/a:b", claim=VolumeClaim("c"))), HOST)


def test_a_storage_of_which_nothing_is_known_is_not_mounted() -> None:
    assert mounted(HOST, Mount("a", "/a")) == []


def test_outputs_and_the_folder_of_the_job_are_on_the_sites_volume() -> None:
    pod = task_pod(plan(), Task("worker", 0), 1, 2, KubernetesOptions(outputs_volume="outputs-claim"), PLACE)
    found = {
        each["mountPath"]: each
        for each in container(pod, "app")["volumeMounts"]
        if each["name"] == "claim-outputs-claim"
    }
    assert {path: each["subPath"] for path, each in found.items()} == {
        "/usr/local/pai/output": "train-abc2345.outputs/attempt-1/worker-0.2/output",
        "/usr/local/pai/job-dir": "train-abc2345.outputs/job-dir",
    }
    assert task_volumes.job_folder("train-abc2345") == "train-abc2345.outputs/job-dir"
    assert "claim-outputs-claim" not in {each["name"] for each in container(pod, "agent")["volumeMounts"]}
