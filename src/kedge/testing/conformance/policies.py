"""Completion and retry policies: when a job ends, and when it is retried."""

from __future__ import annotations

import json
from collections.abc import Callable

from kedge.errors import EXIT_FAILED
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.command import TIMEOUT, Kedge
from kedge.testing.conformance.case import QUICK_RETRY, ConformanceCase, job_report, same
from kedge.testing.wait import wait_until

_SPEC = """\
- {code: 232, phrase: Passes, behavior: TRANSIENT, pattern: {runtimeContainerPatterns: [{userLogRegex: will pass}]}}
- {code: 223, phrase: Stays, behavior: PERMANENT, pattern: {runtimeContainerPatterns: [{userLogRegex: will stay}]}}
"""
_EVERY_TASK = {"kedge": {"completion": "everyTaskSucceeds"}}
_NEVER = {"minFailedInstances": -1, "minSucceededInstances": -1}
_TRANSIENT = "echo 'OSError: [Errno 98] Address already in use'"
_MISSING = """echo "ModuleNotFoundError: No module named 'nothing'" """


def _transient_retries(most: int) -> dict[str, object]:
    return {"extras": {"kedge": {"retry": {"maxTransient": most, "backoffSec": 0.01}}}}


def _tries(kedge: Kedge, task: str = "worker-0") -> int:
    """The number of job attempts in which the task printed its `try` line."""
    return sum(kedge.task_log(task, attempt) == f"try {attempt}\n" for attempt in range(10))


def _three_tries(kedge: Kedge) -> None:
    same("attempts that ran", _tries(kedge), 3)


def _launch_order(kedge: Kedge) -> None:
    launched = [(event["role"], event["index"]) for event in kedge.events() if event["event"] == JobEvent.TASK_LAUNCHED]
    same("order", launched, [("worker", 0), ("worker", 1), ("worker", 2), ("ps", 0), ("a", 0)])


def _root_is_worker_1(kedge: Kedge) -> None:
    root = job_report(kedge)["root"]
    same("root cause", (root["task"], root["cause"]), ("worker:1", "missing_module"))


def _first_success(kedge: Kedge) -> None:
    roles = {
        "master": {
            "commands": ["until [ -e $KEDGE_OUTPUT_DIR/go ]; do sleep 0.1; done"],
            "completion": {"minFailedInstances": 1, "minSucceededInstances": 1},
        },
        "worker": {"commands": ["exit 3"], "instances": 2, "completion": {"minFailedInstances": -1}},
        "ps": {"commands": ["sleep 1000"], "completion": {"minSucceededInstances": -1}},
    }
    process = kedge.start("run", kedge.job("", roles=roles))
    wait_until(lambda: [event["event"] for event in kedge.events()].count(JobEvent.TASK_COMPLETED) == 2, TIMEOUT)
    (kedge.folder / "go").touch()
    kedge("cp", "go", "job/master-0:")
    kedge.finish(process, 0)
    states = {
        "master:0": State.SUCCEEDED,
        "worker:0": State.FAILED,
        "worker:1": State.FAILED,
        "ps:0": State.STOPPED,
    }
    same("states", {task["task"]: task["state"] for task in job_report(kedge)["tasks"]}, states)
    assert kedge.leftovers() == []


def _failures_are_reported(kedge: Kedge) -> None:
    """Every report and command shows that tasks failed although the job succeeded."""
    text = "Succeeded by its completion policy; 2 of 2 tasks failed"
    report = job_report(kedge)
    same("report.json", (report["state"], report["text"], report["root"]["cause"]), (State.SUCCEEDED, text, "unknown"))
    same("report.md", text in (kedge.only_run() / "report.md").read_text(), True)
    run = kedge.only_run().name
    same("kedge wait", kedge("wait", run).stdout, f"{text}\n")
    assert text in kedge("show", run).stdout
    assert "0/2, 2 failed" in kedge("ps").stdout
    facts = json.loads(kedge("ps", "--json").stdout)
    same("kedge ps --json", (facts["state"], facts["text"], facts["failed"]), (State.SUCCEEDED, text, 2))


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "the first failure of a role fails the job": ConformanceCase(
        "[ $PAI_TASK_INDEX = 0 ] || sleep 1000; echo failing; exit 3",
        roles={"worker": {"instances": 3}},
        code=EXIT_FAILED,
        states={"worker:0": State.FAILED, "worker:1": State.STOPPED, "worker:2": State.STOPPED},
        prints=("^After it +2 other tasks were stopped$",),
    ),
    "the first success of a role can end the job": _first_success,
    "a job without conditions succeeds when all tasks are done": ConformanceCase(
        "exit 1",
        roles={"worker": {"instances": 2, "completion": _NEVER}},
        states={"worker:0": State.FAILED, "worker:1": State.FAILED},
        prints=("Succeeded by its completion policy; 2 of 2 tasks failed", r"^Failed task +worker:"),
        more=_failures_are_reported,
    ),
    "a job can require that every task succeeds": ConformanceCase(
        "[ $PAI_TASK_INDEX != 0 ] || exit 3; sleep 2",
        roles={"worker": {"instances": 2}, "ps": {"commands": ["exit 4"]}, "a": {"commands": ["true"]}},
        keys={"extras": _EVERY_TASK},
        code=EXIT_FAILED,
        states={
            "worker:0": State.FAILED,
            "worker:1": State.SUCCEEDED,
            "ps:0": State.FAILED,
            "a:0": State.SUCCEEDED,
        },
    ),
    "a job that requires every task to succeed, and all do": ConformanceCase(
        "true", roles={"worker": {"instances": 2}}, keys={"extras": _EVERY_TASK}, prints=("Succeeded in",)
    ),
    "tasks start in the order of the file": ConformanceCase(
        "true", roles={"worker": {"instances": 3}, "ps": {}, "a": {}}, more=_launch_order
    ),
    "unknown failures are retried jobRetryCount times": ConformanceCase(
        "echo try $FC_FRAMEWORK_ATTEMPT_ID; exit 1",
        keys={"jobRetryCount": 2},
        code=EXIT_FAILED,
        attempts=3,
        prints=("all 2 retries are used",),
        more=_three_tries,
    ),
    "jobRetryCount overrides stock rows of the exit spec that are permanent": ConformanceCase(
        "kill -ILL $$",
        keys={"jobRetryCount": 1},
        code=EXIT_FAILED,
        attempts=2,
        prints=(r"attempt 2 starts now \(retry 1 of 1\)", r"the only retry is used \(jobRetryCount\)"),
    ),
    "rows of the user's own exit spec decide on retries": ConformanceCase(
        f"{_MISSING}; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] && echo will stay || echo will pass; exit 1",
        keys={"jobRetryCount": 3, "extras": {"kedge": {"rules": ["spec.yaml"], **QUICK_RETRY["kedge"]}}},
        files={"spec.yaml": _SPEC},
        code=EXIT_FAILED,
        attempts=2,
        prints=(
            "row 232 of spec.yaml declares it transient",
            "not retried: row 223 of spec.yaml declares it permanent",
        ),
    ),
    "transient failures are retried a limited number of times": ConformanceCase(
        "echo try $FC_FRAMEWORK_ATTEMPT_ID; kill -TERM $$",
        keys=_transient_retries(2),
        code=EXIT_FAILED,
        attempts=3,
        prints=("given up after 2 retries for transient failures",),
        more=_three_tries,
    ),
    "a transient cause is retried for any exit code": ConformanceCase(
        f"{_TRANSIENT}; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]",
        keys={"extras": QUICK_RETRY},
        attempts=2,
        prints=("attempt 2 starts", "port_in_use is transient"),
    ),
    "a sure permanent cause is never retried": ConformanceCase(
        f"{_MISSING}; exit 1",
        keys={"jobRetryCount": 3},
        code=EXIT_FAILED,
        attempts=1,
        prints=(r"missing_module \(permanent", "not retried: missing_module is permanent"),
    ),
    "the same failure of the program without progress ends retries": ConformanceCase(
        "exit 127",
        keys={"jobRetryCount": 4},
        code=EXIT_FAILED,
        attempts=2,
        prints=("not retried: command_not_found occurred twice at the same place, without progress in between",),
    ),
    "a failure after progress is retried": ConformanceCase(
        "echo step $FC_FRAMEWORK_ATTEMPT_ID; exit 127",
        keys={"jobRetryCount": 2},
        code=EXIT_FAILED,
        attempts=3,
        prints=("command_not_found is not certain, retry 2 of 2", r"all 2 retries are used \(jobRetryCount\)"),
    ),
    "transient failures without progress are retried up to the limit": ConformanceCase(
        f"{_TRANSIENT}; exit 1",
        keys=_transient_retries(3),
        code=EXIT_FAILED,
        attempts=4,
        prints=("given up after 3 retries for transient failures",),
    ),
    "a SIGINT that kedge did not send is transient": ConformanceCase(
        "kill -INT $$; exit 130",
        keys=_transient_retries(1),
        code=EXIT_FAILED,
        attempts=2,
        prints=("code 130, .*, is transient",),
    ),
    "without gang allocation a task is retried alone": ConformanceCase(
        "echo try $FC_TASK_ATTEMPT_ID; [ $PAI_TASK_INDEX = 0 ] || [ $FC_TASK_ATTEMPT_ID = 2 ]",
        roles={"worker": {"instances": 2, "taskRetryCount": 2}},
        keys={"extras": {"gangAllocation": False}},
        logs={"worker-0": "try 0\n", "worker-1": "try 0\n", "worker-1.1": "try 1\n", "worker-1.2": "try 2\n"},
        attempts=1,
        prints=(r"^worker:1 +succeeded +3 ",),
    ),
    "the same failure without progress ends retries of a single task too": ConformanceCase(
        "echo try $FC_TASK_ATTEMPT_ID; exit 127",
        roles={"worker": {"taskRetryCount": 3}},
        keys={"extras": {"gangAllocation": False}},
        code=EXIT_FAILED,
        logs={"worker-0": "try 0\n", "worker-0.1": "try 1\n"},
        attempts=1,
        prints=("not retried: command_not_found occurred twice at the same place",),
    ),
    "the loss of a failed peer is not the root cause": ConformanceCase(
        f"if [ $PAI_TASK_INDEX = 1 ]; then {_MISSING}; else echo 'ConnectionResetError: [Errno 104] Connection reset "
        "by peer'; fi; exit 1",
        roles={"worker": {"instances": 3, "completion": {"minFailedInstances": 3}}},
        code=EXIT_FAILED,
        more=_root_is_worker_1,
    ),
}
