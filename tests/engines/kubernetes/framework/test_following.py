"""What FrameworkController does is seen in the run folder, whoever looks and however often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kedge.engines.kubernetes.framework import liveness, requests
from kedge.jobs.submission import Submitted
from kedge.runs import copies, events, report, status
from kedge.runs import liveness as run_liveness
from kedge.runs.folder import Run
from kedge.runs.follow import follow
from kedge.runs.liveness import JobPhase
from kedge.runs.timed_log import TaskLines
from kedge.states import State
from kedge.testing.framework_controller import FrameworkController
from kedge.testing.kubernetes_api.server import FakeKubernetes

from .conftest import FrameworkBench

MESSAGE = """[PAI_RUNTIME_ERROR_START]
exitCode: 255
originUserExitCode: 3
errorLogs:
  user: |
    ModuleNotFoundError: No module named 'torch'
[PAI_RUNTIME_ERROR_END]"""


def names(run: Run) -> list[str]:
    return [event["event"] for event in events.read(run.events)]


def seen(run: Run) -> status.JobStatus:
    assert copies.fetch(run, logs=True) == ""
    return status.fold(events.read(run.events))


def end_pods(bench: FrameworkBench, codes: dict[str, int], message: str = "") -> None:
    """All pods end, and FrameworkController completes what follows."""
    for pod in bench.pods():
        code = next((code for name, code in codes.items() if pod.endswith(name)), None)
        if code is not None:
            bench.server.nodes.finish(pod, code)
            if message and code:
                bench.server.nodes.end_container(pod, code, message=message)
    for _ in range(6):
        bench.step()
        for pod in bench.server.listed("Pod"):
            if "deletionTimestamp" in pod["metadata"]:
                bench.gone(pod["metadata"]["name"])


@pytest.fixture(params=[False, True], ids=["plain", "compressed"])
def compressed(request: pytest.FixtureRequest, bench: FrameworkBench) -> bool:
    """Statuses are plain, and compressed as those of large jobs are."""
    bench.controller = FrameworkController(bench.api, compress=request.param)
    return bool(request.param)


def test_a_job_from_its_submission_to_its_end(bench: FrameworkBench, compressed: bool) -> None:
    run = bench.submit().run
    assert seen(run).state == State.WAITING
    bench.run_pods()
    attempt = bench.framework()["status"]["attemptStatus"]
    assert bool(attempt.get("taskRoleStatusesCompressed")) == compressed
    now = seen(run)
    assert [(task.role, task.index, task.state, task.node) for task in now.tasks] == [
        ("work_er", 0, State.RUNNING, "node-1"), ("work_er", 1, State.RUNNING, "node-1"),
    ]  # fmt: skip
    for pod in bench.pods():
        bench.server.nodes.log(pod, f"hello from {pod[-1]}\n")
    assert seen(run) == now
    end_pods(bench, {"-0": 0, "-1": 0})
    now = seen(run)
    assert (now.state, now.exit_code, now.code) == (State.SUCCEEDED, 0, 0)
    assert [task.state for task in now.tasks] == [State.SUCCEEDED, State.SUCCEEDED]
    recorded = names(run)
    assert seen(run) == now
    assert names(run) == recorded
    assert report.exists(run)
    assert run_liveness.ask_scheduler(run).state == JobPhase.GONE


def test_what_a_task_printed_is_kept_once(bench: FrameworkBench) -> None:
    run = bench.submit().run
    first, _ = bench.run_pods()
    log = run.task("work_er", 0, 0) / "user-all" / "current"
    bench.server.nodes.log(first, "one\n")
    seen(run)
    assert log.read_text() == "one\n"
    of_runtime = "[Mon Nov 23 22:08:27 UTC 2026] [openpai-runtime] [INFO] USER COMMAND END\n"
    bench.server.nodes.log(first, f"one\ntwo\nthree\n{of_runtime}")
    seen(run)
    seen(run)
    assert log.read_text() == "one\ntwo\nthree\n"
    assert (run.task("work_er", 0, 0) / "runtime.log").read_text() == of_runtime


def test_a_failed_task_is_explained(bench: FrameworkBench, frameworks: FakeKubernetes) -> None:
    run = bench.submit().run
    bench.run_pods()
    end_pods(bench, {"-1": 255}, MESSAGE)
    now = seen(run)
    assert (now.state, now.exit_code, now.code) == (State.FAILED, 1, 255)
    made = report.read(run)
    assert made
    assert made.root
    assert (made.root.task, made.root.cause, made.root.exit_code) == ("work_er:1", "missing_module", 3)
    tasks = {task.task: task for task in made.tasks}
    assert (tasks["work_er:1"].exit_code, tasks["work_er:1"].pai_code) == (3, 255)
    assert tasks["work_er:0"].state == State.STOPPED
    assert frameworks.listed("Secret") == []


def test_a_job_that_is_tried_again(bench: FrameworkBench) -> None:
    run = bench.submit(retries=1).run
    bench.run_pods()
    seen(run)
    end_pods(bench, {"-0": 1})
    bench.run_pods()
    now = seen(run)
    assert (now.attempt, now.state) == (1, State.RUNNING)
    assert names(run).count("attempt-started") == 2
    end_pods(bench, {"-0": 0, "-1": 0})
    assert seen(run).state == State.SUCCEEDED


def test_a_task_that_is_tried_again_alone(bench: FrameworkBench) -> None:
    run = bench.submit(task_retries=1).run
    bench.run_pods()
    seen(run)
    end_pods(bench, {"-0": 1})
    bench.run_pods()
    now = seen(run)
    assert [(task.index, task.attempts) for task in now.tasks] == [(0, 2), (1, 1)]
    end_pods(bench, {"-0": 0, "-1": 0})
    assert seen(run).state == State.SUCCEEDED
    assert names(run).count("task-retrying") == 1


def test_a_stop_is_passed_on(bench: FrameworkBench) -> None:
    run = bench.submit().run
    bench.run_pods()
    assert requests.stop(run, kill=False) == ()
    assert bench.framework()["spec"]["executionType"] == "Stop"
    assert seen(run).state == State.STOPPING
    bench.step(2)
    end_pods(bench, {})
    now = seen(run)
    assert (now.state, now.code, now.text) == (State.STOPPED, -210, "stopped by a stop request")
    assert [task.state for task in now.tasks] == [State.STOPPED, State.STOPPED]


def test_a_second_stop_ends_the_pods_at_once(bench: FrameworkBench) -> None:
    run = bench.submit().run
    bench.run_pods()
    requests.stop(run, kill=False)
    requests.stop(run, kill=False)
    graces = [pod["metadata"].get("deletionGracePeriodSeconds") for pod in bench.server.listed("Pod")]
    assert graces == [1, 1]


def test_a_framework_that_nobody_has_looked_at_says_so_and_can_be_stopped(
    bench: FrameworkBench, frameworks: FakeKubernetes
) -> None:
    run = bench.submit().run
    said = liveness.ask_scheduler(run)
    assert (said.state, said.text) == (JobPhase.PENDING, "FrameworkController has not looked at it yet; is it running?")
    requests.stop(run, kill=False)
    assert frameworks.listed("Framework") == []
    assert status.read(run).state == State.STOPPED


def test_why_pods_wait_is_said(bench: FrameworkBench) -> None:
    run = bench.submit().run
    bench.step()
    bench.server.nodes.unschedulable(bench.pods()[0], "0/2 nodes are available: 2 Insufficient cpu.")
    assert "2 have too little CPU free" in liveness.ask_scheduler(run).text


def test_a_deleted_framework_ends_the_run(bench: FrameworkBench) -> None:
    run = bench.submit().run
    bench.run_pods()
    seen(run)
    bench.api.delete("Framework", bench.framework()["metadata"]["name"])
    assert liveness.ask_scheduler(run).state == JobPhase.GONE
    now = status.read(run)
    assert (now.state, now.text) == (State.FAILED, "its Framework was deleted")


def test_a_run_of_another_machine_is_found(bench: FrameworkBench, tmp_path: Path) -> None:
    run = bench.submit({"framework_priorities": True}).run
    bench.run_pods()
    elsewhere = tmp_path / "elsewhere"
    options = {"kubeconfig": str(bench.server.kubeconfig), "controller": "framework"}
    copies.import_runs("kubernetes", options, elsewhere, "fake")
    copies.import_runs("kubernetes", options, elsewhere, None)
    found = Run(elsewhere / run.id)
    assert [task.state for task in seen(found).tasks] == [State.RUNNING, State.RUNNING]
    assert found.info().name == "fake"
    requests.forget(found)
    assert bench.server.listed("PriorityClass") == []


def test_rm_removes_all_of_it(bench: FrameworkBench, frameworks: FakeKubernetes) -> None:
    run = bench.submit({"framework_priorities": True}).run
    requests.forget(run)
    assert [frameworks.listed(kind) for kind in ("Framework", "Secret", "PriorityClass")] == [[], [], []]


def test_a_follower_sees_all_of_it(bench: FrameworkBench) -> None:
    submitted: Submitted = bench.submit()
    bench.run_pods()
    for pod in bench.pods():
        bench.server.nodes.log(pod, "hello\n")
    printed: list[bytes] = []
    shown: list[Any] = []
    for item in follow(submitted.run):
        if isinstance(item, TaskLines):
            printed.append(item.data)
        elif item is not None:
            shown.append(item["event"])
        if shown.count("task-launched") == 2 and b"".join(printed).count(b"hello") == 2 and bench.pods():
            end_pods(bench, {"-0": 0, "-1": 0})
    assert shown[-1] == "job-completed"
    assert b"".join(printed) == b"hello\nhello\n"
