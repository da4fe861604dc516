"""The variables of a task: OpenPAI's names, order and spelling, and what is dropped when they are too large."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from kedge import contract, peers
from kedge.contract import PEERS_FILE_VARIABLE, SecretRef

FIRST = {
    "host": "10.151.41.8",
    "ports": {"tcp": [29877, 22353, 29076], "udp": [31903, 33486, 35953], "ssh": [39080], "http": [30643]},
}
SECOND = {
    "host": "10.151.41.9",
    "ports": {"mpi": [20966, 21891], "tensorflow": [22829], "ssh": [26411], "http": [36213]},
}


def with_peers(attempt, roles, role, index):
    """The attempt as task `role`:`index` of a job with these peers."""
    path = attempt.folder.parent / "peers.json"
    path.write_text(json.dumps({"roles": roles}))
    own = roles[role][index]
    attempt.spec = attempt.spec._replace(
        role=role, task_index=index, host=own["host"], ports=own["ports"], peers_file=str(path)
    )


def seen(attempt):
    """The environment that the command saw."""
    return dict(item.split("=", 1) for item in attempt.stream("user-stdout").decode().split("\0") if item)


def test_two_roles_in_openpais_order(attempt):
    with_peers(attempt, {"taskrole": [FIRST], "taskrole_1": [SECOND]}, "taskrole", 0)
    assert attempt.run("env -0") == 0
    lines = (attempt.folder / "pai/runtime.d/runtime_env.sh").read_text().splitlines()
    names = [re.match(r"export (\w+)='.*'$", line)[1] for line in lines]
    original = [name for name in names if "taskrole1" not in name][:31]
    assert original[:9] == [
        "PAI_PORT_LIST_taskrole_0_tcp", "PAI_taskrole_0_tcp_PORT", "PAI_PORT_LIST_taskrole_0_udp",
        "PAI_taskrole_0_udp_PORT", "PAI_PORT_LIST_taskrole_0_ssh", "PAI_taskrole_0_ssh_PORT",
        "PAI_PORT_LIST_taskrole_0_http", "PAI_taskrole_0_http_PORT", "PAI_HOST_IP_taskrole_0",
    ]  # fmt: skip
    assert original[9:20] == [
        "PAI_CURRENT_CONTAINER_IP", "PAI_CONTAINER_HOST_IP", "PAI_CURRENT_CONTAINER_PORT",
        "PAI_CONTAINER_HOST_PORT", "PAI_CONTAINER_SSH_PORT", "PAI_CONTAINER_HOST_tcp_PORT_LIST",
        "PAI_CONTAINER_HOST_udp_PORT_LIST", "PAI_CONTAINER_HOST_ssh_PORT_LIST",
        "PAI_CONTAINER_HOST_http_PORT_LIST", "PAI_CONTAINER_HOST_PORT_LIST", "PAI_TASK_ROLE_taskrole_HOST_LIST",
    ]  # fmt: skip
    assert original[28:31] == [
        "PAI_HOST_IP_taskrole_1_0", "PAI_TASK_ROLE_taskrole_1_HOST_LIST", "PAI_TASK_ROLE_INSTANCES",
    ]  # fmt: skip
    values = seen(attempt)
    assert values["PAI_PORT_LIST_taskrole1_0_mpi"] == values["PAI_PORT_LIST_taskrole_1_0_mpi"] == "20966,21891"
    assert values["PAI_TASK_ROLE_taskrole1_HOST_LIST"] == "10.151.41.9:36213"
    assert values["PAI_HOST_IP_taskrole_1_0"] == values["PAI_HOST_IP_taskrole1_0"] == "10.151.41.9"
    assert values["PAI_TASK_ROLE_INSTANCES"] == "taskrole:0,taskrole_1:0"
    assert values["PAI_CONTAINER_HOST_PORT_LIST"] == (
        "tcp:29877,22353,29076;udp:31903,33486,35953;ssh:39080;http:30643;"
    )


def test_a_converted_name_that_is_another_role_is_not_used(attempt):
    with_peers(attempt, {"taskrole_1": [FIRST], "taskrole1": [SECOND]}, "taskrole_1", 0)
    attempt.run("env -0")
    assert seen(attempt)["PAI_HOST_IP_taskrole1_0"] == "10.151.41.9"
    assert seen(attempt)["PAI_HOST_IP_taskrole_1_0"] == "10.151.41.8"


def test_peers_that_are_not_known_yet_are_left_out(attempt):
    unknown = {"host": None, "ports": {}}
    with_peers(attempt, {"worker": [unknown, FIRST, {"host": "10.0.0.3", "ports": {}}]}, "worker", 1)
    attempt.run("env -0")
    values = seen(attempt)
    assert "PAI_HOST_IP_worker_0" not in values
    assert values["PAI_HOST_IP_worker_2"] == "10.0.0.3"
    assert values["PAI_TASK_ROLE_worker_HOST_LIST"] == "10.151.41.8:30643"


def test_without_a_peers_file_the_own_task_is_known(attempt):
    attempt.run("env -0")
    assert seen(attempt)["PAI_CONTAINER_HOST_IP"] == "127.0.0.1"
    assert PEERS_FILE_VARIABLE not in seen(attempt)


def test_the_runtimes_own_variables_and_what_is_inherited(attempt):
    outer = {"PAI_OUTER": "1", "FC_OUTER": "1", "KEDGE_OUTPUT_DIR": "1", "KEDGE_OUTER": "1", "PLAIN": "ä"}
    attempt.spec = attempt.spec._replace(environment={"PAI_JOB_NAME": "me~test", "MINE": "a'b\nc"})
    attempt.run("env -0", env={**os.environ, **outer})
    values = seen(attempt)
    assert not {"PAI_OUTER", "FC_OUTER", "KEDGE_OUTER"} & values.keys()
    assert (values["PLAIN"], values["MINE"], values["PAI_JOB_NAME"]) == ("ä", "a'b\nc", "me~test")
    assert (values["PAI_WORK_DIR"], values["PAI_LOG_DIR"]) == (attempt.spec.workdir, attempt.spec.folder)
    folders = (values[contract.OUTPUT_DIR_VARIABLE], values[contract.JOB_DIR_VARIABLE])
    assert folders == (f"{attempt.spec.folder}/output", f"{attempt.spec.folder}/job-dir")
    assert all(map(os.path.isdir, folders))
    assert values["PYTHONUNBUFFERED"] == "1"
    assert values[contract.JOB_ID_VARIABLE] == "me~test"


def test_hooks_see_the_same_environment(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("item", taskStarts="echo $PAI_CURRENT_CONTAINER_IP $KEDGE_JOB_ID"),)
    )
    attempt.run("true")
    assert attempt.log[1] == "127.0.0.1 me~test"


def test_the_job_may_want_python_buffered(attempt):
    attempt.spec = attempt.spec._replace(environment={"PYTHONUNBUFFERED": ""})
    attempt.run("env -0")
    assert seen(attempt)["PYTHONUNBUFFERED"] == ""


def test_the_environment_file_is_quoted_for_the_shell():
    value = 'a\'b "$c" \\ `d`\n!'
    text = peers.shell_file((peers.EnvironmentVariable("NAME", value),))
    shown = subprocess.run(["sh", "-c", text.decode() + 'printf %s "$NAME"'], capture_output=True, check=True).stdout
    assert shown.decode() == value


def test_every_shell_can_read_the_environment_file():
    """Roles may have hyphens, which names of variables must not have; a framework's labels of ports may be anything."""
    tasks = [peers.Peer("10.0.0.1", {"http": [1], "$(touch ran)": [2]})]
    text = peers.shell_file(tuple(peers.peer_variables("my-role", 0, {"my-role": tasks})))
    for shell in ("sh", "bash"):
        command = [shell, "-ec", f'{text.decode()}\necho "$PAI_HOST_IP_myrole_0" $PAI_CONTAINER_HOST_PORT_LIST']
        shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        assert shown == "10.0.0.1 http:1;$(touch ran):2;\n"
    assert b"my-role_" not in text


def test_one_list_that_is_too_long_is_dropped_alone(attempt):
    tasks = [{"host": "10.0.0.1", "ports": {"http": [10000 + n]}} for n in range(6800)]
    with_peers(attempt, {"worker": tasks}, "worker", 5)
    assert attempt.run("env -0") == 0
    values = seen(attempt)
    assert "PAI_TASK_ROLE_worker_HOST_LIST" not in values
    assert values["PAI_HOST_IP_worker_6799"] == "10.0.0.1"
    assert values[PEERS_FILE_VARIABLE] == attempt.spec.peers_file
    (warning,) = [line for line in attempt.log if "WARNING" in line]
    assert "1 variables" in warning
    assert "PAI_TASK_ROLE_worker_HOST_LIST" in warning


def test_far_too_many_peers_leave_the_own_task_and_a_file(attempt):
    tasks = [{"host": "10.0.0.1", "ports": {"ssh": [n % 60000 + 1], "http": [n % 60000 + 1]}} for n in range(20_000)]
    with_peers(attempt, {"worker": tasks}, "worker", 7)
    assert attempt.run("env -0") == 0
    values = seen(attempt)
    assert values["PAI_HOST_IP_worker_7"] == values["PAI_CURRENT_CONTAINER_IP"] == "10.0.0.1"
    assert values["PAI_worker_7_http_PORT"] == "8"
    assert "PAI_HOST_IP_worker_8" not in values
    assert len(json.loads(Path(values[PEERS_FILE_VARIABLE]).read_text())["roles"]["worker"]) == 20_000
    full = (attempt.folder / "pai/runtime.d/runtime_env.sh").read_text()
    assert "export PAI_HOST_IP_worker_19999='10.0.0.1'\n" in full
    assert any("do not all fit into the environment" in line for line in attempt.log)


def test_a_peers_file_that_cannot_be_read(attempt):
    path = attempt.folder.parent / "peers.json"
    attempt.spec = attempt.spec._replace(peers_file=str(path))
    for text, reason in ((None, "No such file"), ("{", "Expecting"), ("[]", "expected an object of roles")):
        if text:
            path.write_text(text)
        assert attempt.run("true") == 255
        assert attempt.report["reason"] == contract.CANNOT_START
        assert reason in attempt.report["message"]


def test_variables_of_the_user_are_filled_in_with_secrets(attempt, tmp_path):
    (tmp_path / contract.SECRET_VALUES).write_text(json.dumps({"token": "hunter2hunter2"}))
    env = {"PLAIN": ("a b",), "EMPTY": (), "TOKEN": ("x ", SecretRef("token", "<% $secrets.token %>")), "HOME": ("/h",)}
    attempt.spec = attempt.spec._replace(secrets_dir=str(tmp_path), env=env, environment={"PAI_X": "kedge"}, mask=False)
    assert attempt.run("env -0") == 0
    values = seen(attempt)
    assert [values[name] for name in (*env, "PAI_X")] == ["a b", "", "x hunter2hunter2", "/h", "kedge"]
    assert "hunter2" not in (attempt.folder / contract.SPEC_FILE).read_text()
    assert "hunter2" not in (attempt.folder / "pai/runtime.d/runtime_env.sh").read_text()


def test_a_variable_with_a_missing_secret_is_reported(attempt):
    attempt.spec = attempt.spec._replace(env={"A": (SecretRef("token", "<% $secrets.token %>"),)})
    assert attempt.run("true") == 255
    assert "<% $secrets.token %> refers to a secret that the job does not have: token" in attempt.report["message"]
