"""The action ssh-barrier and the commands of a task, in a real attempt."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from kedge.contract import Action, Callback, Step
from kedge.testing.wait import wait_until


def waits(attempt, **parameters):
    """Let the attempt wait for the tasks of <pai>/ssh/config, being worker_a:0 itself."""
    step = Step("ssh", (Callback("taskStarts", action=Action("ssh-barrier", parameters)),))
    environment = {"PAI_CURRENT_TASK_ROLE_NAME": "worker_a", "PAI_TASK_INDEX": "0", "PAI_RESOURCE_worker_a": "0,2,1,0"}
    attempt.spec = attempt.spec._replace(role="worker_a", steps=(step,), environment=environment)


def test_the_command_starts_once_all_others_are_reached(attempt, prepared):
    prepared.config.write_text(prepared.config.read_text().partition("Host down-0")[0])
    waits(attempt)
    attempt.start("true")
    attempt.wait_for_event("hook-started")
    prepared.start()
    assert attempt.wait() == 0
    assert "SSH barrier: reached all 2 other tasks in" in str(attempt.log)


def test_the_missing_task_is_named_when_the_time_is_over(attempt, server):
    waits(attempt, timeout_sec=2)
    assert attempt.run("true") == 249
    text = "SSH barrier reaches max retry count. Failed instances: down-0 Exit..."
    assert text in str(attempt.log)
    assert "down-0: ssh: connect to host 127.0.0.1 port" in str(attempt.log)
    assert attempt.report["exit_code"] == 249
    assert attempt.report["user_exit_code"] == 10
    assert text in attempt.report["message"]
    assert attempt.report["diagnosis"]["cause"] == "rendezvous_failure"


def test_a_task_that_has_come_and_gone_counts_as_reached(attempt, server):
    """It passed the barrier and ended before this task tried to reach it."""
    waits(attempt, timeout_sec=30)
    (server.folder / "seen").mkdir()
    (server.folder / "seen" / "down-0").touch()
    assert attempt.run("true") == 0


def test_a_stop_ends_it_at_once(attempt, server):
    waits(attempt)
    attempt.start("true")
    wait_until(lambda: "hook-started" in str(attempt.events), 120)
    attempt.signal(signal.SIGTERM)
    attempt.wait()
    assert attempt.report["stopped_by"] == "TERM"
    assert not attempt.report["killed"]


@pytest.mark.parametrize("inside", [True, False])
def test_in_an_allocation_of_slurm_launchers_still_use_ssh(attempt, server, inside):
    server.config.write_text(server.config.read_text().partition("Host down-0")[0])
    waits(attempt)
    given = {"SLURM_JOB_ID": "7", "HYDRA_LAUNCHER": "rsh"} if inside else {}
    attempt.spec = attempt.spec._replace(environment={**attempt.spec.environment, **given})
    assert attempt.run("env") == 0
    out = attempt.stream("user-stdout").decode()
    assert ("OMPI_MCA_ras=^slurm\n" in out, "PRTE_MCA_plm=ssh\n" in out) == (inside, inside)
    assert ("HYDRA_LAUNCHER=rsh\n" in out) == inside


def test_scripts_use_the_images_client_or_kedges_own(attempt, server, tmp_path):
    server.config.write_text(server.config.read_text().partition("Host down-0")[0])
    waits(attempt)
    image = tmp_path / "image"
    image.mkdir()
    for name in ("sh", "env", "cat"):
        (image / name).symlink_to(subprocess.check_output(["which", name], text=True).strip())
    environment = {**attempt.spec.environment, "PATH": str(image)}
    attempt.spec = attempt.spec._replace(environment=environment)
    command = 'ssh -V; ssh workera-1 "echo reached"; env; cat $KEDGE_HOSTFILE'
    assert attempt.run(command) == 0
    out = attempt.stream("user-stdout").decode() + attempt.stream("user-stderr").decode()
    assert "kedge's ssh client" in out
    assert "reached" in out
    agent = attempt.folder / "pai" / "ssh" / "bin" / "ssh"
    assert f"OMPI_MCA_plm_rsh_agent={agent}\n" in out
    assert "OMPI_MCA_btl_tcp_if_include=lo\n" in out
    assert "worker_a-0 slots=2\n" in out
    for name in ("ssh", "scp"):
        (image / name).symlink_to(f"/usr/bin/{name}")
    assert attempt.run('ssh -V; ssh workera-1 "echo reached"; scp workera-1:/etc/passwd there') == 0
    assert "OpenSSH_" in attempt.stream("user-stdout").decode() + attempt.stream("user-stderr").decode()
    assert os.path.exists(f"{attempt.spec.workdir}/there")
