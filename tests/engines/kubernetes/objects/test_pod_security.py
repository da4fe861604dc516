"""What pods may do: kedge's own containers are always restricted, tasks comply with what the site promises."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.engines.base import Task
from kedge.engines.kubernetes.objects.driver_job import driver_job
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.resolve.model import Mount, RemoteStorage, VolumeClaim

from ..jobs import planned, role
from . import pod_security
from .test_task_pod import OWNER, PLACE, changed, container

PLAN = planned({"worker": role(1, 1, 1024, 1)})
CLAIM = Mount("data", "/data", claim=VolumeClaim("datasets"))
NFS = Mount("home", "/home/ada", remote=RemoteStorage("nfs", "nas", "/export"))
ON_NODE = Mount("scratch", "/scratch", folder="/lustre/scratch")

options_of_sites = st.fixed_dictionaries(
    {
        "restricted": st.booleans(),
        "privileged": st.booleans(),
        "host_network": st.booleans(),
        "host_paths": st.sampled_from([[], ["/lustre"]]),
        "run_as_user": st.sampled_from([None, 1, 65534]),
        "run_as_group": st.sampled_from([None, 1, 65534]),
        "run_volume": st.sampled_from([None, "runs"]),
        "outputs_volume": st.sampled_from([None, "outputs"]),
        "code_volume": st.just("code"),
        "queue": st.sampled_from([None, "team"]),
    }
).map(lambda values: KubernetesOptions(**values))
capabilities = st.lists(st.sampled_from(["NET_RAW", "MKNOD", "AUDIT_WRITE", "SETFCAP"]), unique=True)
mounts = st.lists(st.sampled_from([CLAIM, NFS, ON_NODE]), unique=True)


def own_containers(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with kedge's own containers and volumes alone."""
    kept = copy.deepcopy(spec)
    kept["containers"] = [each for each in kept["containers"] if each["name"] != "app"]
    used = {mount["name"] for each in pod_security.containers(kept) for mount in each["volumeMounts"]}
    kept["volumes"] = [volume for volume in kept["volumes"] if volume["name"] in used]
    return kept


@settings(max_examples=100)
@given(options_of_sites, capabilities, mounts, st.booleans(), st.booleans(), st.booleans())
def test_pods_comply_with_the_pod_security_standards(
    options: KubernetesOptions, given_back: list[str], storages: list[Mount], fabric: bool, code: bool, in_pieces: bool
) -> None:
    plan = changed(PLAN, capabilities=tuple(given_back), infiniband=fabric, code="job" if code else None)
    plan = replace(plan, mounts=tuple(storages))
    place = PLACE._replace(code_pieces=2 if in_pieces else 0, code_on_volume=not in_pieces)
    contradiction = options.restricted and (options.privileged or options.host_network)
    no_place = (ON_NODE in storages and (options.restricted or not options.host_paths)) or (
        NFS in storages and options.restricted
    )
    if contradiction or no_place or (options.restricted and given_back):
        with pytest.raises(CannotRun):
            task_pod(plan, Task("worker", 0), 0, 0, options, place)
        return
    pod = task_pod(plan, Task("worker", 0), 0, 0, options, place)
    spec, texts = pod["spec"], pod["metadata"]["annotations"]
    own = own_containers(spec)
    own.pop("hostNetwork", None)  # which is the pod's
    assert [*pod_security.restricted(own, {})] == []
    found = set(pod_security.baseline(spec, texts))
    if not (options.privileged or options.host_network or ON_NODE in storages):
        assert found == set()
    if options.restricted:
        assert [*pod_security.restricted(spec, texts)] == []
    if options.host_network:
        assert "hostNetwork" in found


@settings(max_examples=30)
@given(options_of_sites)
def test_the_driver_is_always_restricted(options: KubernetesOptions) -> None:
    template = driver_job(OWNER, options, "runtime:1")["spec"]["template"]
    assert [*pod_security.restricted(template["spec"], template["metadata"]["annotations"])] == []


def app(options: KubernetesOptions, *names: str) -> dict[str, Any]:
    plan = changed(PLAN, capabilities=names)
    found = container(task_pod(plan, Task("worker", 0), 0, 0, options, PLACE), "app")["securityContext"]
    return dict(found)


def test_tasks_usually_have_what_containers_on_one_machine_have() -> None:
    assert app(KubernetesOptions()) == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["NET_RAW", "MKNOD", "AUDIT_WRITE", "SETFCAP"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_a_job_may_get_capabilities_back() -> None:
    found = app(KubernetesOptions(), "NET_RAW", "MKNOD")["capabilities"]
    assert found == {"add": ["MKNOD"], "drop": ["AUDIT_WRITE", "SETFCAP"]}, "NET_RAW is only left to it"
    everything = app(KubernetesOptions(), "NET_RAW", "MKNOD", "AUDIT_WRITE", "SETFCAP")["capabilities"]
    assert everything == {"add": ["MKNOD", "AUDIT_WRITE", "SETFCAP"]}


def test_a_site_may_allow_what_openpai_allows() -> None:
    found = app(KubernetesOptions(privileged=True))
    assert found == {"capabilities": {"add": ["SYS_ADMIN", "IPC_LOCK", "DAC_READ_SEARCH"], "drop": ["MKNOD"]}}
    pod = task_pod(PLAN, Task("worker", 0), 0, 0, KubernetesOptions(privileged=True), PLACE)
    assert pod["metadata"]["annotations"]["container.apparmor.security.beta.kubernetes.io/app"] == "unconfined"
    assert app(KubernetesOptions(privileged=True), "MKNOD")["capabilities"]["add"][-1] == "MKNOD"


def test_a_restricted_site_gives_no_capabilities() -> None:
    with pytest.raises(CannotRun, match=r"the role worker asks for capabilities \(MKNOD\), and this site"):
        app(KubernetesOptions(restricted=True), "MKNOD")


@pytest.mark.parametrize("option", ["privileged", "host_network"])
def test_a_site_cannot_want_both(option: str) -> None:
    options = KubernetesOptions(restricted=True)._replace(**{option: True})
    with pytest.raises(CannotRun, match=rf"restricted and {option.replace('_', '-')}, which exclude each other"):
        app(options)


def test_users_are_those_of_the_site_or_of_the_image() -> None:
    assert "runAsUser" not in app(KubernetesOptions())
    found = app(KubernetesOptions(run_as_user=1000, run_as_group=100))
    assert (found["runAsUser"], found["runAsGroup"]) == (1000, 100)


BROKEN = {
    "hostPID": {"hostPID": True},
    "volume x: hostPath": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
    "volume x": {"volumes": [{"name": "x", "nfs": {}}]},
    "pod: root": {"securityContext": {"runAsUser": 0}},
    "sysctl kernel.msgmax": {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}},
}
BROKEN_CONTEXT = {
    "app: privilege escalation": {"allowPrivilegeEscalation": None},
    "app: perhaps root": {"runAsNonRoot": None},
    "app: root": {"runAsUser": 0},
    "app: no seccomp profile": {"seccompProfile": None},
    "app: seccomp": {"seccompProfile": {"type": "Unconfined"}},
    "app: does not drop all capabilities": {"capabilities": {"drop": ["MKNOD"]}},
    "app: adds SYS_ADMIN": {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}},
    "app: privileged": {"privileged": True},
    "app: SELinux": {"seLinuxOptions": {"type": "spc_t"}},
}


@pytest.mark.parametrize("violation", [*BROKEN, *BROKEN_CONTEXT])
def test_the_check_finds_violations(violation: str) -> None:
    spec = task_pod(PLAN, Task("worker", 0), 0, 0, KubernetesOptions(restricted=True), PLACE)["spec"]
    spec = copy.deepcopy(spec) | BROKEN.get(violation, {})
    if violation in BROKEN_CONTEXT:
        spec.pop("securityContext")
        context = spec["containers"][0]["securityContext"] | BROKEN_CONTEXT[violation]
        spec["containers"][0]["securityContext"] = {key: value for key, value in context.items() if value is not None}
    assert violation in [*pod_security.restricted(spec, {})]
