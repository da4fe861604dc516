"""The plugin ssh in a pod: the keys that OpenPAI keeps for a user, in the user's extension."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import re2
import yaml

import kedge

from .framework_files import FIRST_UID, SECOND_UID, VARIABLES, framework, ports_as, role, status
from .init_folders import InitFolders

RUNTIME = Path(kedge.__file__).parent / "runtime"
SITE = str(Path(re2.__file__).parents[1])
PLUGINS = "com.microsoft.pai.runtimeplugin"


def key_pair() -> tuple[str, str]:
    """A private key, and its public key as a line."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    return key.export_private_key().decode(), key.export_public_key().decode()


@pytest.fixture(scope="module")
def job_pair() -> tuple[str, str]:
    return key_pair()


def parse(
    folders: InitFolders,
    parameters: dict[str, Any],
    extension: dict[str, Any] | None = None,
    port: int = 2222,
    **more: str,
) -> tuple[dict[str, Any] | None, dict[str, str], str]:
    """The parameters of the ssh server if one starts, the secrets, and the log."""
    job = {
        "taskRoles": {name: {"dockerImage": "i", "commands": ["true"]} for name in ("taskrole", "taskrole_1")},
        "extras": {PLUGINS: [{"plugin": "ssh", "parameters": parameters}]},
    }
    if extension is not None:
        file = folders.work / "user-extension-secrets/userExtensionSecrets.yaml"
        file.parent.mkdir()
        file.write_text(yaml.safe_dump(extension))
    ports = ports_as(ssh={"start": port, "count": 1}, http={"start": port + 10, "count": 1})
    roles = [role("taskrole", ports), role("taskrole1", ports)]
    statuses = [status("taskrole", (FIRST_UID, "127.0.0.1")), status("taskrole1", (SECOND_UID, "127.0.0.1"))]
    folders.write_framework(framework(roles, statuses, yaml.safe_dump(job)))
    ran = folders.run("frameworkParser", "framework.json", **(VARIABLES | more))
    assert ran.code == 0, ran.log
    spec = json.loads(folders.text("kedge-task.json"))
    callbacks = [callback for step in spec["steps"] for callback in step["callbacks"]]
    values = folders.work / "kedge-secrets/values.json"
    secrets = json.loads(values.read_text()) if values.exists() else {}
    return (callbacks[0]["action"]["parameters"] if callbacks else None), secrets, ran.log


def test_the_keys_of_a_users_jobs(folders: InitFolders, job_pair: tuple[str, str]) -> None:
    private, public = job_pair
    server, secrets, log = parse(
        folders, {"jobssh": "true"}, {"jobSSH": {"key": f"\n{private}\n\n", "pubKey": public.strip()}}
    )
    assert server
    assert server["jobssh"] is True
    assert secrets == {"ssh job key": private, "ssh host key": private}
    assert private not in folders.text("kedge-task.json") + log
    files = {name: folders.work / "ssh-secret" / name for name in ("ssh-privatekey", "ssh-publickey")}
    assert [file.read_text() for file in files.values()] == [private, public]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files.values()] == [0o600, 0o644]


def test_the_stored_keys_of_a_user(folders: InitFolders) -> None:
    keys = [key_pair()[1].strip() for _ in range(3)]
    stored = {
        "sshKeys": [{"title": "one", "value": keys[0], "time": 1}, {"title": "two", "value": f"{keys[1]}\n"}, None]
    }
    server, secrets, _ = parse(folders, {"userssh": {"type": "custom", "value": keys[2]}}, stored)
    assert server
    assert sorted(map(str, server["keys"])) == sorted(keys)
    assert secrets == {"ssh job key": "", "ssh host key": ""}


def test_stored_keys_count_only_where_the_job_wants_them(folders: InitFolders) -> None:
    stored = {"sshKeys": [{"title": "one", "value": key_pair()[1]}]}
    assert parse(folders, {"jobssh": False}, stored)[0] is None


@pytest.mark.parametrize("extension", [None, {}, {"jobSSH": None}, {"jobSSH": {"pubKey": "x"}}, {"sshKeys": "x"}])
def test_without_keys_there_is_no_server(folders: InitFolders, extension: dict[str, Any] | None) -> None:
    server, _, log = parse(folders, {"jobssh": True, "userssh": {"type": "custom", "value": ""}}, extension)
    assert server is None
    assert "ssh between the tasks of this job is off: no job ssh keys found; the user's extension has no jobSSH" in log


def test_without_a_gang_tasks_do_not_reach_each_other(folders: InitFolders, job_pair: tuple[str, str]) -> None:
    extension = {"jobSSH": {"key": job_pair[0], "pubKey": job_pair[1]}}
    server, _, log = parse(folders, {"jobssh": True}, extension, GANG_ALLOCATION="false")
    assert server is None
    assert "WARNING" in log
    assert "ssh between the tasks of this job is off: tasks that do not wait for each other" in log


def run_task(folders: InitFolders, command: str, port: int) -> subprocess.CompletedProcess[str]:
    """Run the task with another command."""
    file = folders.runtime_d / "kedge-task.json"
    spec = json.loads(file.read_text()) | {"command": command}
    file.write_text(json.dumps(spec))
    variables = folders.variables(VARIABLES | {"PAI_CONTAINER_SSH_PORT": str(port), "HOME": str(folders.work)})
    (folders.work / "logs" / FIRST_UID).mkdir()
    argv = [sys.executable, "-I", "-S", str(RUNTIME), str(file), "--site", SITE]
    return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False, timeout=60)


def test_a_task_reaches_itself_by_its_name(folders: InitFolders, job_pair: tuple[str, str]) -> None:
    """With OpenPAI's key pair, host key checked."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    extension = {"jobSSH": {"key": job_pair[0], "pubKey": job_pair[1]}}
    parse(folders, {"jobssh": True}, extension, port)
    done = run_task(folders, "ssh -o BatchMode=yes taskrole-0 echo reached", port)
    assert (done.returncode, done.stdout) == (0, "reached\n"), done.stderr


def test_a_server_without_a_key_of_the_job_makes_one(folders: InitFolders, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    private, public = key_pair()
    (tmp_path / "own").write_text(private)
    (tmp_path / "own").chmod(0o600)
    parse(folders, {"userssh": {"type": "custom", "value": public}}, None, port)
    options = f"-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile={tmp_path}/known -i {tmp_path}/own"
    done = run_task(folders, f"ssh {options} -p {port} 127.0.0.1 echo reached", port)
    assert (done.returncode, done.stdout) == (0, "reached\n"), done.stderr
