"""Jobs on a cluster: one that is as it should be, and what happens to pods from outside."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from typing import Any

from tests.e2e.conftest import EXAMPLES

from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from . import image_names
from .kedge_on_kubernetes import OnKubernetes

TICKS = "for i in $(seq 15); do echo tick $i; sleep 1; done"


def test_a_job_runs_to_its_end(kedge: OnKubernetes) -> None:
    done = kedge("run", kedge.job("echo hello from $(hostname)"))
    assert "Succeeded" in done.stdout
    assert kedge.task_log() == "hello from worker-0\n"
    assert kedge.leftovers() == []


def test_a_driver_that_is_deleted_changes_nothing_for_the_tasks(kedge: OnKubernetes) -> None:
    process = kedge.start("run", kedge.job(TICKS, roles={"worker": {"instances": 2}}))
    wait_until(lambda: len(kedge.runs()) == 1 and "tick 2" in log(kedge), TIMEOUT, "output of a task")
    (driver,) = kedge.pods("driver")
    kedge.namespace.kubectl("delete", "pod", driver["metadata"]["name"], "--wait=false")
    said = kedge.finish(process, 0)
    assert "the job's controller was started again; its tasks have run on" in said
    for task in ("worker-0", "worker-1"):
        assert kedge.task_log(task) == "".join(f"tick {number}\n" for number in range(1, 16))
    assert [event["task_attempt"] for event in named(kedge, "task-launched")] == [0, 0]


def test_a_pod_that_somebody_deletes_is_a_transient_failure(kedge: OnKubernetes) -> None:
    job = kedge.job("echo here; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] || sleep 600")
    kedge("run", "--detach", job)
    wait_until(lambda: "here" in log(kedge), TIMEOUT, "output of the task")
    (pod,) = kedge.pods()
    kedge.namespace.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    run = kedge.only_run().name
    assert "succeeded" in kedge("wait", run).stdout
    (retried,) = named(kedge, "job-retrying")
    assert retried["retries"]["transient"] == 1
    assert kedge.leftovers() == []


def test_what_a_job_waits_for_is_said_and_a_stop_ends_it(kedge: OnKubernetes) -> None:
    role: dict[str, Any] = {"resourcePerInstance": {"cpu": 1000, "memoryMB": 64, "gpu": 0}}
    kedge("run", "--detach", kedge.job("true", roles={"worker": role}))
    wait_until(lambda: bool(named(kedge, "note")), TIMEOUT, "a note")
    assert re.search(r"none of \d+ nodes can take it: .* too little CPU free", named(kedge, "note")[0]["text"])
    run = kedge.only_run().name
    kedge("stop", run)
    kedge("wait", run, code=1)
    assert kedge.leftovers() == []


def test_the_example_and_its_outputs(kedge: OnKubernetes) -> None:
    done = kedge("run", "-p", f"image={image_names.busybox()}", EXAMPLES / "kubernetes.yaml")
    assert done.stdout.count("| pi is about 3.14\n") == 3
    kedge("cp", "kubernetes/worker-2:pi.txt", ".")
    assert (kedge.folder / "pi.txt").read_text() == "pi is about 3.14\n"


def test_a_program_beside_a_task_on_a_terminal(kedge: OnKubernetes) -> None:
    run = kedge("run", "--detach", kedge.job("echo ready; sleep 600")).stdout.strip()
    wait_until(lambda: "ready" in log(kedge), TIMEOUT, "output of the task")
    for options in (["-t"], ["-it"]):
        said, code = on_terminal(kedge, "exec", *options, run, "worker:0", "sh", "-c", "tty; exit 3")
        assert (said.startswith("/dev/pts/"), code) == (True, 3), said
    kedge("stop", "--kill", run)


def on_terminal(kedge: OnKubernetes, *args: str) -> tuple[str, int]:
    """What a command prints on a terminal, and its exit code."""
    outer, inner = os.openpty()
    process = subprocess.Popen(kedge.argv(args), env=kedge.environment, cwd=kedge.folder, stdin=inner, stdout=inner)
    os.close(inner)
    said = b""
    with suppress(OSError):  # how Linux says that nobody has the terminal any more
        while data := os.read(outer, 1000):
            said += data
    os.close(outer)
    return said.decode(), process.wait(TIMEOUT)


def log(kedge: OnKubernetes) -> str:
    """What the first task has printed so far."""
    try:
        return kedge.task_log()
    except FileNotFoundError:
        return ""


def named(kedge: OnKubernetes, name: str) -> list[dict[str, Any]]:
    return [event for event in kedge.events() if event["event"] == name]
