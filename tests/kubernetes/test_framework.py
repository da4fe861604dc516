"""Jobs of FrameworkController on a cluster: its part is played by a small one of the tests, and the pods are real. They
wait for each other by the real API server."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

import pytest

from kedge.engines.kubernetes.access import submitted
from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from . import frameworks
from .kedge_on_kubernetes import OnKubernetes
from .namespaces import UNTIL_TOLD

FRAMEWORK = ("--controller", "framework")
WAIT = f"{UNTIL_TOLD} sleep 0.1; done"


@pytest.fixture
def played(kedge: OnKubernetes) -> Iterator[OnKubernetes]:
    """kedge in a namespace whose Frameworks are run."""
    frameworks.prepare(kedge.namespace)
    with frameworks.controller(kedge.namespace):
        yield kedge
    submitted.close_connections()


def test_all_tasks_wait_for_each_other_and_know_their_peers(played: OnKubernetes) -> None:
    say = "echo task $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX of $PAI_HOST_IP_work_er_0 and $PAI_HOST_IP_work_er_1"
    secret = {"secrets": {"token": "hunter2hunter2"}, "extras": {}}
    commands = [say, "[ <% $secrets.token %> = hunter2hunter2 ] && echo the secret is right", WAIT]
    job = played.job(commands, roles={"work_er": {"instances": 2}}, **secret)
    process = played.start("run", *FRAMEWORK, job)
    for index in (0, 1):  # the pods are deleted when they have ended, and with them what nobody has read
        wait_until(lambda task=f"work_er-{index}": "right" in task_log(played, task), TIMEOUT, "output")  # type: ignore[misc]
    for pod in played.namespace.get("pod"):
        played.namespace.let_go_on(pod["metadata"]["name"])
    said = played.finish(process, 0)
    assert "Succeeded" in said
    assert "FrameworkController decides about ends and retries" in said
    logs = [played.task_log(f"work_er-{index}") for index in (0, 1)]
    told = [log.splitlines() for log in logs]
    assert [lines[1:] for lines in told] == [["the secret is right"]] * 2
    peers = [lines[0].partition(" of ") for lines in told]
    assert [who for who, _, _ in peers] == ["task 0", "task 1"]
    assert peers[0][2] == peers[1][2]
    addresses = set(peers[0][2].split(" and "))
    assert len(addresses) == 2
    assert all(map(ipaddress.ip_address, addresses))
    assert "USER COMMAND END" in (played.task("work_er-0") / "runtime.log").read_text()
    assert played.namespace.get("secret", labels={"app.kubernetes.io/managed-by": "kedge"}) == []


def test_a_failing_task_is_explained(played: OnKubernetes) -> None:
    job = played.job("echo before; echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 3")
    done = played("run", *FRAMEWORK, job, code=1)
    assert "missing_module" in done.stdout
    assert "worker:0 failed: the command failed with exit code 3" in done.stderr
    shown = played("show", played.only_run().name)
    assert "missing_module" in shown.stdout


def test_a_job_is_stopped_and_removed(played: OnKubernetes) -> None:
    role: dict[str, Any] = {"instances": 2}
    played("run", "--detach", *FRAMEWORK, played.job("echo here; sleep 600", roles={"worker": role}))
    run = played.only_run().name
    wait_until(lambda: "here" in task_log(played), TIMEOUT, "output of the task")
    assert "running" in played("ps").stdout
    played("stop", run)
    assert "stopped" in played("wait", run, code=1).stdout
    assert played.namespace.get("pod") == []
    played("rm", run)
    assert played.namespace.get("frameworks") == []
    assert played.runs() == []


def task_log(kedge: OnKubernetes, task: str = "worker-0") -> str:
    try:
        return kedge.task_log(task)
    except FileNotFoundError:
        return ""
