"""Jobs of FrameworkController on a cluster: its part is played by a small one of the tests, and the pods are real. They
wait for each other by the real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kedge.engines.kubernetes.access import submitted
from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from . import frameworks
from .kedge_on_kubernetes import OnKubernetes

FRAMEWORK = ("--controller", "framework")


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
    commands = [say, "[ <% $secrets.token %> = hunter2hunter2 ] && echo the secret is right"]
    job = played.job(commands, roles={"work_er": {"instances": 2}}, **secret)
    done = played("run", *FRAMEWORK, job)
    assert "Succeeded" in done.stdout
    assert "FrameworkController decides about ends and retries" in done.stderr
    logs = [played.task_log(f"work_er-{index}") for index in (0, 1)]
    for index, log in enumerate(logs):
        assert log.startswith(f"task {index} of 10.")
        assert "the secret is right" in log
    assert logs[0].split()[3:] == logs[1].split()[3:]
    addresses = {word for word in logs[0].split() if word.startswith("10.")}
    assert len(addresses) == 2
    assert played.namespace.get("secret", labels={"app.kubernetes.io/managed-by": "kedge"}) == []


def test_a_failing_task_is_explained(played: OnKubernetes) -> None:
    job = played.job("echo before; echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 3")
    done = played("run", *FRAMEWORK, job, code=1)
    assert "missing_module" in done.stdout
    assert "exit code 3" in done.stdout
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


def task_log(kedge: OnKubernetes) -> str:
    try:
        return kedge.task_log()
    except FileNotFoundError:
        return ""
