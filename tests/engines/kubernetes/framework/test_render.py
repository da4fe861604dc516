"""Jobs as objects of FrameworkController, as OpenPAI makes them, and what their status means."""

from __future__ import annotations

import base64
import calendar
import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.engines.slurm.jobs import planned

from kedge.dropin.task import framework as init_phase
from kedge.engines.kubernetes.framework import addons, progress, render
from kedge.engines.kubernetes.framework.addons import AddonNames
from kedge.engines.kubernetes.framework.site import FrameworkSite
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Mount
from kedge.states import State

SITE = FrameworkSite("registry.example.org/kube-runtime:1", api_server="http://10.0.0.1:8080")
PLAIN = FrameworkSite(
    "runtime:1", host_network=False, node_label="", fuse=False, capabilities=(), dropped=(), unconfined=False,
    log_folder="", pull_secrets=(),
)  # fmt: skip


def plan(**role: Any) -> Plan:
    resources = {"cpu": 4, "memoryMB": 8192, "gpu": 1, "ports": {"mpi": 2}}
    return planned({"taskrole_1": {"resourcePerInstance": resources, **role}})


def made(found: Plan, site: FrameworkSite = SITE, *, has_secrets: bool = False) -> dict[str, Any]:
    names = addons.names(found, has_secrets=has_secrets)
    return render.framework(found, "protocolVersion: 2\n", site, names)


def pod(found: dict[str, Any], role: int = 0) -> dict[str, Any]:
    template: dict[str, Any] = found["spec"]["taskRoles"][role]["task"]["pod"]
    return template


def variables(container: Mapping[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_the_object_of_a_job() -> None:
    found = made(plan())
    assert found["metadata"]["name"] == hashlib.md5(b"ada~train", usedforsecurity=False).hexdigest()
    assert found["metadata"]["labels"] == {"userName": "ada", "virtualCluster": "default"}
    assert found["metadata"]["annotations"] == {
        "jobName": "train", "logPathInfix": found["metadata"]["name"], "config": "protocolVersion: 2\n",
        "totalGpuNumber": "1",
    }  # fmt: skip
    assert found["spec"]["executionType"] == "Start"
    assert found["spec"]["retryPolicy"] == {"fancyRetryPolicy": True, "maxRetryCount": 0}
    [role] = found["spec"]["taskRoles"]
    assert (role["name"], role["taskNumber"]) == ("taskrole1", 1)
    assert role["frameworkAttemptCompletionPolicy"] == {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
    assert role["task"]["retryPolicy"] == {"fancyRetryPolicy": False, "maxRetryCount": 0}
    assert role["task"]["podGracefulDeletionTimeoutSec"] == 600


def test_the_pods_of_a_role() -> None:
    found = pod(made(plan()))
    name = made(plan())["metadata"]["name"]
    ports = {"mpi": {"count": 2}, "ssh": {"count": 1}, "http": {"count": 1}}
    rule = json.loads(found["metadata"]["annotations"]["rest-server/port-scheduling-spec"])
    assert rule == {"schedulePortStart": 15000, "schedulePortEnd": 40000, "ports": ports}
    assert list(rule["ports"]) == ["mpi", "ssh", "http"]
    spec = found["spec"]
    assert spec["hostNetwork"] is True
    assert spec["priorityClassName"] == f"{name}-priority"
    assert spec["imagePullSecrets"] == [{"name": "pai-secret"}]
    [init], [app] = spec["initContainers"], spec["containers"]
    assert app["command"] == ["/usr/local/pai/runtime"]
    assert app["resources"]["limits"] == {"cpu": 4, "memory": "8192Mi", "github.com/fuse": 1, "nvidia.com/gpu": 1}
    assert app["securityContext"]["capabilities"] == {
        "add": ["SYS_ADMIN", "IPC_LOCK", "DAC_READ_SEARCH"], "drop": ["MKNOD"],
    }  # fmt: skip
    assert {mount["name"] for mount in init["volumeMounts"]} <= {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in app["volumeMounts"]} <= {volume["name"] for volume in spec["volumes"]}


def test_the_variables_of_both_containers() -> None:
    spec = pod(made(plan()))["spec"]
    init, app = variables(spec["initContainers"][0]), variables(spec["containers"][0])
    assert init["USER_CMD"] == "python train.py"
    assert (init["GANG_ALLOCATION"], init["KUBE_APISERVER_ADDRESS"]) == ("true", "http://10.0.0.1:8080")
    assert "REST_SERVER_URI" not in init
    assert not {"USER_CMD", "GANG_ALLOCATION"} & set(app)
    assert app["PAI_CURRENT_TASK_ROLE_NAME"] == "taskrole_1"
    assert app["PAI_TASK_INDEX"] == {"fieldRef": {"fieldPath": "metadata.annotations['FC_TASK_INDEX']"}}
    assert not [name for name in (*init, *app) if name.startswith("FC_")]


def test_a_role_without_gpus_sees_none() -> None:
    spec = pod(made(plan(resourcePerInstance={"cpu": 1, "memoryMB": 512, "gpu": 0})))["spec"]
    assert variables(spec["containers"][0])["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert "nvidia.com/gpu" not in spec["containers"][0]["resources"]["limits"]
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(spec["initContainers"][0])


def test_kubernetes_replaces_nothing_in_a_command() -> None:
    spec = pod(made(plan(commands=["echo $(PAI_JOB_NAME) $(hostname)"])))["spec"]
    assert variables(spec["initContainers"][0])["USER_CMD"] == "echo $$(PAI_JOB_NAME) $$(hostname)"


def test_secrets_and_storages_are_mounted() -> None:
    found = replace(plan(), mounts=(Mount("data", "/mnt/data", read_only=True), Mount("home", "/mnt/home")))
    spec = pod(made(found, has_secrets=True))["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    name = made(found)["metadata"]["name"]
    assert volumes["job-secrets"]["secret"] == {"secretName": f"{name}-configcred"}
    assert volumes["data-volume"]["persistentVolumeClaim"] == {"claimName": "data", "readOnly": True}
    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["data-volume"] == {"name": "data-volume", "mountPath": "/mnt/data", "readOnly": True}
    assert mounts["job-secrets"]["mountPath"] == "/usr/local/pai/secrets"


def test_a_site_may_leave_out_what_needs_privileges() -> None:
    spec = pod(made(plan(), PLAIN))["spec"]
    assert spec["hostNetwork"] is False
    assert "affinity" not in spec
    assert spec["containers"][0]["securityContext"] == {"capabilities": {}}
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]


def test_the_init_phase_reads_what_is_made(tmp_path: Path) -> None:
    file = tmp_path / "framework.json"
    file.write_text(json.dumps(made(plan())))
    found = init_phase.read(str(file))
    assert [(role.name, role.number) for role in found.roles] == [("taskrole1", 1)]
    assert found.annotations["config"] == "protocolVersion: 2\n"


def test_a_job_file_that_is_too_large_is_refused() -> None:
    found = plan()
    with pytest.raises(CannotRun, match="256 KiB"):
        render.framework(found, "x" * (256 << 10), SITE, addons.names(found, has_secrets=False))


@pytest.mark.parametrize(
    ("priority", "value"),
    [(126, -95959), (120, -100759255), (100, -436303575), (10, -1946253015), (0, -2114025175), (-1, -2130802391)],
)
def test_the_value_of_a_priority(priority: int, value: int) -> None:
    submitted = calendar.timegm((2021, 2, 1, 2, 54, 48)) * 1000
    assert addons.priority_value(submitted, priority) == value
    assert addons.priority_value(submitted + 999, priority) == value


def test_the_secret_of_a_registry() -> None:
    auth: Any = {"username": ("ada",), "password": ("pw",), "registryuri": ("registry.example.org",)}
    found = plan()
    found = replace(found, roles=(replace(found.roles[0], auth=auth),))
    secret = addons.registry_secret(AddonNames("n"), found, {}, SITE)
    assert secret is not None
    config = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
    assert config == {"auths": {"registry.example.org": {"auth": base64.b64encode(b"ada:pw").decode()}}}
    assert addons.registry_secret(AddonNames("n"), plan(), {}, SITE) is None
    assert pod(made(found))["spec"]["imagePullSecrets"][1] == {"name": f"{made(found)['metadata']['name']}-regcred"}


def test_all_objects_are_yaml() -> None:
    names = AddonNames("n")
    for one in (made(plan()), addons.job_secret(names, "a: 1\n", SITE), addons.priority_class(names, 0)):
        assert yaml.safe_load(yaml.safe_dump(one)) == one


def status(state: str, code: int | None = None, *, packed: bool = False, **more: Any) -> dict[str, Any]:
    completion = {"code": code, "phrase": "", "diagnostics": "why"} if code is not None else None
    attempt = {"id": 2, "podName": "p", "podIP": "10.0.0.7", "completionStatus": completion}
    roles = [{"name": "worker", "taskStatuses": [{"index": 3, "state": state, "attemptStatus": attempt}]}]
    stored: dict[str, Any] = {"taskRoleStatuses": roles}
    if packed:
        data = base64.b64encode(gzip.compress(json.dumps(roles).encode())).decode()
        stored = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": data}
    whole = {"id": 1, "completionStatus": completion, **stored, **more}
    return {"status": {"state": state, "attemptStatus": whole}}


@pytest.mark.parametrize(
    ("state", "code", "task", "attempt"),
    [
        ("AttemptCreationPending", None, State.WAITING, State.WAITING),
        ("AttemptCreationRequested", None, State.WAITING, State.WAITING),
        ("AttemptPreparing", None, State.WAITING, State.WAITING),
        ("AttemptRunning", None, State.RUNNING, State.RUNNING),
        ("AttemptDeletionPending", -210, State.STOPPING, State.STOPPING),
        ("AttemptDeletionRequested", -220, State.STOPPING, State.STOPPING),
        ("AttemptDeleting", 255, State.RUNNING, State.RUNNING),
        ("AttemptCompleted", -210, State.STOPPING, State.STOPPED),
        ("AttemptCompleted", 0, State.RUNNING, State.SUCCEEDED),
        ("AttemptCompleted", 255, State.RUNNING, State.FAILED),
        ("Completed", 0, State.SUCCEEDED, State.SUCCEEDED),
        ("Completed", -220, State.STOPPED, State.STOPPED),
        ("Completed", -230, State.FAILED, State.FAILED),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_states(state: str, code: int | None, task: State, attempt: State, packed: bool) -> None:
    found = progress.read(status(state, code, packed=packed))
    assert (found.state, found.attempt, found.code) == (task, 1, code)
    [one] = found.tasks
    assert (one.role, one.task_index, one.state, one.attempt_state) == ("worker", 3, task, attempt)
    assert (one.attempt, one.pod, one.address) == (2, "p", "10.0.0.7")
    assert found.is_over == (state == "Completed")
    assert one.text == ("why" if code is not None else "")


def test_a_framework_without_a_status_waits() -> None:
    assert progress.read({}) == progress.FrameworkProgress(State.WAITING, 0, None, "", ())


@pytest.mark.parametrize("packed", ["!", base64.b64encode(b"no gzip").decode(), 7])
def test_damaged_statuses_are_named(packed: Any) -> None:
    with pytest.raises(CannotRun, match="compressed statuses"):
        progress.read({"status": {"attemptStatus": {"taskRoleStatusesCompressed": packed}}})
