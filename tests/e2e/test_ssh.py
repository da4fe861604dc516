"""ssh between the tasks of a job, and from outside into a task, on the local engine and in containers without ssh."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import JOB_SSH_HOST_KEY, JOB_SSH_KEY, SECRET_DOCUMENT, SECRET_VALUES
from kedge.testing.wait import wait_until

from .conftest import Kedge

PLUGINS = "com.microsoft.pai.runtimeplugin"
WAITS = "echo ready; sleep 1000"


def with_ssh(kedge: Kedge, command: str, *, options: dict[str, Any] | None = None, **parameters: Any) -> Path:
    given = {"jobssh": True, **parameters}
    extras = {PLUGINS: [{"plugin": "ssh", "parameters": given}], **(options or {})}
    return kedge.job(command, extras=extras)


def secrets_of(run: Path) -> dict[str, str]:
    """The values of a running job's secrets."""
    folder = json.loads((run / "run.json").read_text())["secrets_dir"]
    values: dict[str, str] = json.loads((Path(folder) / SECRET_VALUES).read_text())
    assert not {JOB_SSH_KEY, JOB_SSH_HOST_KEY} & json.loads((Path(folder) / SECRET_DOCUMENT).read_text()).keys()
    return values


def is_running(run: Path) -> bool:
    return any(b"ready" in log.read_bytes() for log in run.glob("attempt-0/worker-0/user-all/current"))


def test_a_user_connects_with_the_key_of_the_job(kedge: Kedge) -> None:
    process = kedge.start("run", with_ssh(kedge, WAITS))
    kedge.wait_for_output("ready")
    assert (
        kedge("ssh", "job", "worker:0", "--", "echo $PAI_CURRENT_TASK_ROLE_NAME; exit 4", code=4).stdout == "worker\n"
    )
    no_client = kedge("ssh", "job", "worker-0", "--", "echo own client", PATH="/nonexistent")
    assert no_client.stdout == "own client\n"
    kedge("stop", "job")
    kedge.finish(process, 1)
    run = kedge.only_run().name
    assert f"worker:0 of {run} is not running: its state is stopped" in kedge("ssh", "job", "worker:0", code=2).stderr


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs OpenSSH's client: apt-get install openssh-client")
def test_the_printed_configuration_is_enough_for_openssh(kedge: Kedge) -> None:
    process = kedge.start("run", with_ssh(kedge, WAITS))
    kedge.wait_for_output("ready")
    config = kedge.folder / "config"
    config.write_text(kedge("ssh", "--print-config", "job", "worker:0").stdout)
    host = config.read_text().split()[1]
    done = subprocess.run(["ssh", "-F", config, host, "pwd"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(kedge.folder))
    kedge("stop", "job")
    kedge.finish(process, 1)


def test_a_held_task_is_still_served(kedge: Kedge) -> None:
    process = kedge.start("run", "--hold-on-failure", "10m", with_ssh(kedge, "echo kept > file; exit 7"))
    wait_until(lambda: any("task-held" in log.read_text() for run in kedge.runs() for log in run.glob("events.jsonl")))
    assert kedge("ssh", "job", "worker:0", "--", "cat file").stdout == "kept\n"
    kedge("release", "job")
    kedge.finish(process, 1)


def test_a_server_that_was_killed_is_named_with_what_to_do(kedge: Kedge) -> None:
    process = kedge.start("run", with_ssh(kedge, WAITS))
    kedge.wait_for_output("ready")
    events = map(json.loads, (kedge.task() / "events.jsonl").read_text().splitlines())
    os.kill(next(each["pid"] for each in events if each["event"] == "service-started"), signal.SIGKILL)
    wait_until(lambda: any(each["event"] == "service-ended" for each in kedge.events()))
    refused = kedge("ssh", "job", "worker:0", "--", "true", code=2).stderr
    assert f"kedge logs {kedge.only_run().name} worker:0 --stream runtime shows why" in refused
    kedge("stop", "job")
    kedge.finish(process, 1)


def test_a_task_without_ssh_has_an_error_that_says_what_to_add(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(WAITS))
    kedge.wait_for_output("ready")
    error = kedge("ssh", "job", "worker:0", code=2).stderr
    assert "has no ssh; add the plugin ssh with jobssh: true" in error
    assert "kedge exec" in error
    kedge("stop", "job")
    kedge.finish(process, 1)


def test_the_keys_are_in_no_file_and_no_log_and_new_in_each_run(kedge: Kedge) -> None:
    command = 'cat "$(dirname "$KEDGE_HOSTFILE")/id"; env; echo ready; until [ -e go ]; do sleep 0.05; done'
    process = kedge.start("run", with_ssh(kedge, command))
    kedge.wait_for_output("ready")
    first = secrets_of(kedge.only_run())
    (kedge.task() / "work" / "go").touch()
    kedge.finish(process, 0)
    body = first[JOB_SSH_KEY].split("\n")[3].encode()
    found = [path for path in kedge.only_run().rglob("*") if path.is_file() and body in path.read_bytes()]
    assert found == []
    assert body not in kedge("show", "job", "--json").stdout.encode()
    assert body not in kedge("show", "job", "--yaml").stdout.encode()
    plan = json.loads(kedge("plan", "--json", with_ssh(kedge, command)).stdout)
    assert "(the job's ssh key)" in json.dumps(plan)
    old = kedge.only_run()
    again = kedge.start("rerun", old.name)
    (new,) = wait_until(lambda: [each for each in kedge.runs() if each != old and is_running(each)])
    assert secrets_of(new)[JOB_SSH_KEY] != first[JOB_SSH_KEY]
    kedge("stop", new.name)
    kedge.finish(again, 1)


def test_a_session_has_what_later_hooks_have_exported(kedge: Kedge) -> None:
    hook = {"plugin": "cmd", "parameters": {"preCommands": ['export FROM_HOOK="it\'s here"']}}
    job = kedge.job(
        "ssh worker-0 'echo got $FROM_HOOK in $(pwd)'",
        extras={PLUGINS: [{"plugin": "ssh", "parameters": {"jobssh": True}}, hook]},
    )
    assert "got it's here in" in kedge("run", job).stdout


def test_a_wrong_key_is_an_error_with_its_position(kedge: Kedge) -> None:
    error = kedge("run", with_ssh(kedge, "true", publicKeys=["ssh-ed25519 AAAA me"]), code=2).stderr
    assert "publicKeys[0]: is not a whole public key of type ssh-ed25519" in error


def test_tasks_in_containers_without_ssh_reach_each_other(in_containers: Callable[[str], Kedge]) -> None:
    kedge = in_containers("busybox")
    command = "ssh worker-0 'echo from $PAI_TASK_INDEX; command -v sshd || echo no sshd'; echo ready; sleep 1000"
    process = kedge.start("run", with_ssh(kedge, command, sshbarrier=True))
    kedge.wait_for_output("ready")
    assert "from 0\nno sshd" in kedge.task_log()
    assert kedge("ssh", "job", "worker:0", "--", "hostname; exit 3", code=3).stdout
    kedge("stop", "job")
    kedge.finish(process, 1)
