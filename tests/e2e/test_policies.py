"""Completion and retry policies, seen from outside."""

from __future__ import annotations

import re

from .conftest import Kedge


def states(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+:\d+) +(succeeded|failed|stopped) ", text, re.MULTILINE))


def test_the_first_success_of_a_role_can_end_the_job(kedge: Kedge) -> None:
    roles = {
        "master": {"commands": ["sleep 0.3"], "completion": {"minFailedInstances": 1, "minSucceededInstances": 1}},
        "worker": {"commands": ["exit 3"], "instances": 2, "completion": {"minFailedInstances": -1}},
        "ps": {"commands": ["sleep 1000"], "completion": {"minSucceededInstances": -1}},
    }
    done = kedge("run", kedge.job("", roles=roles))
    assert states(done.stdout) == {
        "master:0": "succeeded", "worker:0": "failed", "worker:1": "failed", "ps:0": "stopped",
    }  # fmt: skip


def test_a_job_without_conditions_succeeds_when_all_tasks_are_done(kedge: Kedge) -> None:
    never = {"minFailedInstances": -1, "minSucceededInstances": -1}
    done = kedge("run", kedge.job("exit 1", roles={"worker": {"instances": 2, "completion": never}}))
    assert states(done.stdout) == {"worker:0": "failed", "worker:1": "failed"}
    assert "Succeeded" in done.stdout


def test_unknown_failures_are_retried_as_often_as_the_job_says(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("echo try $FC_FRAMEWORK_ATTEMPT_ID; exit 1", jobRetryCount=2), code=1)
    assert re.findall(r"\| try (\d)", done.stdout) == ["0", "1", "2"]
    assert "all 2 retries are used" in done.stdout
    assert "attempt 3" in done.stdout


def test_permanent_failures_are_not_retried(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("echo try; kill -ILL $$", jobRetryCount=5), code=1)
    assert done.stdout.count("| try") == 1
    assert "permanent failure" in done.stdout


def test_transient_failures_are_retried_a_limited_number_of_times(kedge: Kedge) -> None:
    extras = {"kedge": {"retry": {"maxTransient": 2, "backoffSec": 0.01}}}
    done = kedge("run", kedge.job("echo try; kill -TERM $$", extras=extras), code=1)
    assert done.stdout.count("| try") == 3
    assert "given up after 2 retries of transient failures" in done.stdout


def test_a_transient_cause_is_retried_whatever_the_exit_code(kedge: Kedge) -> None:
    script = "echo 'OSError: [Errno 98] Address already in use'; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]"
    done = kedge("run", kedge.job(script, extras={"kedge": {"retry": {"backoffSec": 0.01}}}))
    assert "attempt 2 starts" in done.stderr
    assert "transient failure" in done.stderr


def test_a_permanent_cause_is_not_retried_whatever_the_job_says(kedge: Kedge) -> None:
    done = kedge("run", kedge.job("python -c 'import nothing_like_this'", jobRetryCount=3), code=1)
    assert "missing_module (permanent" in done.stdout
    assert "not retried: permanent failure" in done.stdout
    assert "attempt" not in done.stdout.split("Failed in")[1].split(":")[0]


def test_retries_end_when_the_same_failure_comes_back_without_progress(kedge: Kedge) -> None:
    fails = "echo 'OSError: [Errno 98] Address already in use'; exit 1"
    extras = {"kedge": {"retry": {"backoffSec": 0.01, "maxTransient": 4}}}
    done = kedge("run", kedge.job(fails, extras=extras), code=1)
    assert "attempt 2: " in done.stdout
    assert "the attempt before failed in the same place and got as far" in done.stdout
    done = kedge(
        "run", kedge.job(f"echo step $FC_FRAMEWORK_ATTEMPT_ID; {fails}", name="further", extras=extras), code=1
    )
    assert "attempt 5: " in done.stdout
    assert "given up after 4 retries" in done.stdout


def test_without_gang_allocation_a_task_is_retried_alone(kedge: Kedge) -> None:
    script = "echo try $FC_TASK_ATTEMPT_ID; [ $PAI_TASK_INDEX = 0 ] || [ $FC_TASK_ATTEMPT_ID = 2 ]"
    roles = {"worker": {"instances": 2, "taskRetryCount": 2}}
    done = kedge("run", kedge.job(script, roles=roles, extras={"gangAllocation": False}))
    assert re.findall(r"worker:1 \| try (\d)", done.stdout) == ["0", "1", "2"]
    assert re.findall(r"worker:0 \| try (\d)", done.stdout) == ["0"]
    assert re.search(r"^worker:1 +succeeded +3 ", done.stdout, re.MULTILINE)
    # A retry of the task has a folder and a log of its own, and can still find its peers.
    assert (kedge.only_run() / "attempt-0" / "worker-1.2" / "report.json").exists()


def test_ports_of_a_new_attempt_are_new_and_the_same_for_all(kedge: Kedge) -> None:
    script = "echo at $PAI_TASK_ROLE_worker_HOST_LIST; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]"
    done = kedge("run", kedge.job(script, roles={"worker": {"instances": 2}}, jobRetryCount=1))
    lists = re.findall(r"at (\S+)", done.stdout)
    assert len(set(lists)) <= 2
    assert set(kedge_ports(lists[0])).isdisjoint(kedge_ports(lists[-1]))


def test_tasks_start_in_the_order_of_the_file(kedge: Kedge) -> None:
    kedge("run", kedge.job("true", roles={"worker": {"instances": 3}, "ps": {}, "a": {}}))
    launched = [(e["role"], e["index"]) for e in kedge.events() if e["event"] == "task-launched"]
    assert launched == [("worker", 0), ("worker", 1), ("worker", 2), ("ps", 0), ("a", 0)]


def kedge_ports(hosts: str) -> list[str]:
    return re.findall(r":(\d+)", hosts)
