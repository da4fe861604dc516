"""The variables of a framework: OpenPAI's names, order and values, and what happens where data is missing."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .framework_files import (
    FIRST_HOST,
    FIRST_UID,
    SECOND_HOST,
    VARIABLES,
    checked_example,
    framework,
    port_annotation,
    ports_as,
    role,
    status,
)
from .init_folders import InitFolders

# What OpenPAI's program prints for the checked example, as task 0 of the first role.
OF_OPENPAI = """\
export PAI_PORT_LIST_taskrole_0_tcp='29877,22353,29076'
export PAI_taskrole_0_tcp_PORT='29877,22353,29076'
export PAI_PORT_LIST_taskrole_0_udp='31903,33486,35953'
export PAI_taskrole_0_udp_PORT='31903,33486,35953'
export PAI_PORT_LIST_taskrole_0_ssh='39080'
export PAI_taskrole_0_ssh_PORT='39080'
export PAI_PORT_LIST_taskrole_0_http='30643'
export PAI_taskrole_0_http_PORT='30643'
export PAI_HOST_IP_taskrole_0='10.151.41.8'
export PAI_CURRENT_CONTAINER_IP='10.151.41.8'
export PAI_CONTAINER_HOST_IP='10.151.41.8'
export PAI_CURRENT_CONTAINER_PORT='30643'
export PAI_CONTAINER_HOST_PORT='30643'
export PAI_CONTAINER_SSH_PORT='39080'
export PAI_CONTAINER_HOST_tcp_PORT_LIST='29877,22353,29076'
export PAI_CONTAINER_HOST_udp_PORT_LIST='31903,33486,35953'
export PAI_CONTAINER_HOST_ssh_PORT_LIST='39080'
export PAI_CONTAINER_HOST_http_PORT_LIST='30643'
export PAI_CONTAINER_HOST_PORT_LIST='tcp:29877,22353,29076;udp:31903,33486,35953;ssh:39080;http:30643;'
export PAI_TASK_ROLE_taskrole_HOST_LIST='10.151.41.8:30643'
export PAI_PORT_LIST_taskrole1_0_mpi='20966,21891'
export PAI_taskrole1_0_mpi_PORT='20966,21891'
export PAI_PORT_LIST_taskrole1_0_tensorflow='22829'
export PAI_taskrole1_0_tensorflow_PORT='22829'
export PAI_PORT_LIST_taskrole1_0_ssh='26411'
export PAI_taskrole1_0_ssh_PORT='26411'
export PAI_PORT_LIST_taskrole1_0_http='36213'
export PAI_taskrole1_0_http_PORT='36213'
export PAI_HOST_IP_taskrole1_0='10.151.41.9'
export PAI_TASK_ROLE_taskrole1_HOST_LIST='10.151.41.9:36213'
""".splitlines()
INSTANCES = "export PAI_TASK_ROLE_INSTANCES="


def variables(folders: InitFolders) -> dict[str, str]:
    return dict(
        shlex.split(line.removeprefix("export "))[0].split("=", 1)
        for line in folders.text("runtime_env.sh").splitlines()
    )


@pytest.mark.parametrize("packed", [False, True])
def test_the_checked_example(folders: InitFolders, packed: bool) -> None:
    folders.write_framework(checked_example(packed))
    ran = folders.run("envGenerator", "framework.json", **VARIABLES, PAI_TASK_ROLE_LIST="taskrole,taskrole_1")
    assert ran.code == 0, ran.log
    lines = folders.text("runtime_env.sh").splitlines()
    assert [line for line in lines if "taskrole_1" not in line] == OF_OPENPAI
    assert lines[-1] == f"{INSTANCES}'taskrole:0,taskrole_1:0'"
    # The role's own name gives the same variables, beside those under its name in Kubernetes.
    both = [line for line in lines if "taskrole_1" in line and not line.startswith(INSTANCES)]
    assert [line.replace("taskrole_1", "taskrole1") for line in both] == OF_OPENPAI[20:]


def test_without_the_names_of_the_job_file_only_those_of_kubernetes_are_known(folders: InitFolders) -> None:
    folders.write_framework(checked_example())
    assert folders.run("envGenerator", "framework.json", **VARIABLES).code == 0
    lines = folders.text("runtime_env.sh").splitlines()
    assert lines == [*OF_OPENPAI, f"{INSTANCES}'taskrole:0,taskrole1:0'"]


def test_the_other_files(folders: InitFolders) -> None:
    folders.write_framework(checked_example())
    folders.run("envGenerator", "framework.json", **VARIABLES, PAI_TASK_ROLE_LIST="taskrole,taskrole_1")
    listed = (folders.work / "portListFile").read_text().split()
    assert listed == ["29877", "22353", "29076", "31903", "33486", "35953", "39080", "30643"]
    peers = json.loads(folders.text("kedge-peers.json"))["roles"]
    assert list(peers) == ["taskrole", "taskrole_1"]
    assert peers["taskrole_1"] == [
        {"host": SECOND_HOST, "ports": {"mpi": [20966, 21891], "tensorflow": [22829], "ssh": [26411], "http": [36213]}}
    ]
    env = dict(line.split("=", 1) for line in folders.text("env").splitlines())
    assert env == variables(folders)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (20000, {"http": [30643], "ssh": [39080], "tcp": [29877, 22353, 29076]}),
        (15000, {"http": [35643], "ssh": [24080], "tcp": [24877, 32353, 39076]}),
    ],
)
def test_ports_of_both_ranges(folders: InitFolders, start: int, expected: dict[str, list[int]]) -> None:
    annotation = port_annotation({label: len(numbers) for label, numbers in expected.items()}, start)
    folders.write_framework(framework([role("taskrole", annotation)], [status("taskrole", (FIRST_UID, FIRST_HOST))]))
    assert folders.run("envGenerator", **VARIABLES).code == 0
    assert json.loads(folders.text("kedge-peers.json"))["roles"]["taskrole"][0]["ports"] == expected


@pytest.mark.parametrize(("index", "ports"), [(0, "8000,8001"), (3, "8006,8007")])
def test_ports_of_the_older_form_depend_on_the_index(folders: InitFolders, index: int, ports: str) -> None:
    folders.write_framework(framework([role("taskrole", ports_as(http={"start": 8000, "count": 2}), 4)], []))
    assert folders.run("envGenerator", **(VARIABLES | {"FC_TASK_INDEX": str(index)})).code == 0
    assert variables(folders)[f"PAI_PORT_LIST_taskrole_{index}_http"] == ports
    assert variables(folders)["PAI_CONTAINER_HOST_PORT"] == ports.split(",")[0]


def test_peers_without_a_pod_have_no_variables(folders: InitFolders) -> None:
    annotation = port_annotation({"ssh": 1, "http": 1})
    tasks = [(FIRST_UID, FIRST_HOST), (None, None), ("uid-without-host", None)]
    folders.write_framework(framework([role("taskrole", annotation, 4)], [status("taskrole", *tasks)]))
    ran = folders.run("envGenerator", **VARIABLES)
    assert "not known yet: taskrole:1, taskrole:2, taskrole:3" in ran.log
    found = variables(folders)
    assert not [name for name in found if name.startswith(("PAI_PORT_LIST_taskrole_1", "PAI_HOST_IP_taskrole_1"))]
    assert "PAI_PORT_LIST_taskrole_2_http" in found
    assert "PAI_HOST_IP_taskrole_2" not in found
    assert found["PAI_TASK_ROLE_taskrole_HOST_LIST"] == "10.151.41.8:30643"
    assert found["PAI_TASK_ROLE_INSTANCES"] == "taskrole:0,taskrole:1,taskrole:2,taskrole:3"


@pytest.mark.parametrize("recorded", [[], [("of-an-earlier-pod", "10.9.9.9")]])
def test_the_own_pod_counts_where_its_record_is_missing_or_old(folders: InitFolders, recorded: list[tuple]) -> None:
    annotation = port_annotation({"ssh": 1, "http": 1})
    folders.write_framework(framework([role("taskrole", annotation)], [status("taskrole", *recorded)]))
    ran = folders.run("envGenerator", **VARIABLES)
    assert "the address of this task's host is not known" in ran.log
    found = variables(folders)
    assert found["PAI_CONTAINER_SSH_PORT"] == "39080"
    assert not {"PAI_CURRENT_CONTAINER_IP", "PAI_HOST_IP_taskrole_0"} & found.keys()
    folders.run("envGenerator", **VARIABLES, HOST_IP="10.1.1.1")
    assert variables(folders)["PAI_CURRENT_CONTAINER_IP"] == "10.1.1.1"


def test_labels_that_are_missing_have_no_variables(folders: InitFolders) -> None:
    single = [status("taskrole", (FIRST_UID, FIRST_HOST))]
    folders.write_framework(framework([role("taskrole", port_annotation({"tcp": 1}))], single))
    assert folders.run("envGenerator", **VARIABLES).code == 0
    found = variables(folders)
    assert not {"PAI_CONTAINER_SSH_PORT", "PAI_CONTAINER_HOST_PORT"} & found.keys()
    assert found["PAI_CONTAINER_HOST_PORT_LIST"] == "tcp:29877;"
    folders.write_framework(framework([role("taskrole", {})], single))
    assert folders.run("envGenerator", **VARIABLES).code == 0
    assert variables(folders)["PAI_CURRENT_CONTAINER_IP"] == FIRST_HOST


def test_roles_with_one_name_in_kubernetes_are_refused(folders: InitFolders) -> None:
    folders.write_framework(framework([role("ab", {}), role("ab", {})], []))
    own = VARIABLES | {"FC_TASKROLE_NAME": "ab"}
    ran = folders.run("envGenerator", **own, PAI_TASK_ROLE_LIST="a_b,ab")
    assert ran.code == 1
    assert "the task roles a_b and ab, which are both ab in Kubernetes; rename one of them" in ran.log


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"FC_TASKROLE_NAME": "worker"}, "FC_TASKROLE_NAME is 'worker', but the task roles of the framework are"),
        ({"FC_TASK_INDEX": "1"}, "FC_TASK_INDEX is '1', but the task role taskrole has 1 tasks"),
        ({"FC_TASK_INDEX": ""}, "FC_TASK_INDEX is ''"),
    ],
)
def test_a_task_that_is_not_in_the_framework(folders: InitFolders, change: dict[str, str], reason: str) -> None:
    folders.write_framework(checked_example())
    ran = folders.run("envGenerator", **(VARIABLES | change))
    assert ran.code == 1
    assert reason in ran.log
    assert not (folders.runtime_d / "runtime_env.sh").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "framework.json cannot be read: No such file or directory"),
        ("{", "framework.json is not JSON"),
        ("[]", "framework.json is not a framework: it has no list spec.taskRoles"),
        ('{"spec": {"taskRoles": [{}]}}', "a task role has no name"),
    ],
)
def test_a_file_that_is_no_framework(folders: InitFolders, text: str | None, reason: str) -> None:
    if text is not None:
        (folders.work / "framework.json").write_text(text)
    ran = folders.run("envGenerator", **VARIABLES)
    assert (ran.code, reason in ran.log) == (1, True), ran.log


@pytest.mark.parametrize("packed", ["!", "AAAA", ""])
def test_damaged_compressed_statuses(folders: InitFolders, packed: str) -> None:
    value = checked_example(packed=True)
    attempt = value["status"]["attemptStatus"]
    whole = attempt["taskRoleStatusesCompressed"]
    attempt["taskRoleStatusesCompressed"] = packed or whole[: len(whole) // 8 * 4]
    folders.write_framework(value)
    ran = folders.run("envGenerator", **VARIABLES)
    assert (ran.code, "taskRoleStatusesCompressed is " in ran.log) == (1, True), ran.log


@pytest.mark.parametrize("spec", ["{", '"x"', '{"schedulePortStart": 9, "schedulePortEnd": 9, "ports": {}}'])
def test_a_wrong_annotation_of_ports(folders: InitFolders, spec: str) -> None:
    folders.write_framework(framework([role("taskrole", {"rest-server/port-scheduling-spec": spec})], []))
    ran = folders.run("envGenerator", **VARIABLES)
    assert ran.code == 1
    assert "wrong annotation rest-server/port-scheduling-spec of the task role taskrole: " in ran.log


def test_genenv_prints_and_writes_nothing(folders: InitFolders) -> None:
    folders.write_framework(checked_example())
    main = "import sys; from kedge.dropin.programs import main; sys.exit(main('envGenerator'))"
    command = [sys.executable, "-c", main, "genenv", "framework.json"]
    environment = {**os.environ, **folders.variables(VARIABLES)}
    done = subprocess.run(command, env=environment, cwd=folders.work, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*OF_OPENPAI, f"{INSTANCES}'taskrole:0,taskrole1:0'"]
    assert not list(Path(folders.runtime_d).iterdir())


def test_many_tasks_leave_the_file_env_small(folders: InitFolders) -> None:
    annotation = port_annotation({"ssh": 1, "http": 1})
    tasks = [(FIRST_UID, FIRST_HOST), *((f"uid-{n}", "10.0.0.1") for n in range(5000))]
    folders.write_framework(framework([role("taskrole", annotation, 5001)], [status("taskrole", *tasks)], packed=True))
    assert folders.run("envGenerator", **VARIABLES).code == 0
    assert len(folders.text("env")) < 2000
    assert "PAI_CONTAINER_SSH_PORT=39080\n" in folders.text("env")
    assert "PAI_HOST_IP_taskrole_5000=" in folders.text("runtime_env.sh")
