"""When a job is over, and when it is tried again."""

from __future__ import annotations

from collections.abc import Callable

from kedge.testing.command import TIMEOUT, Kedge
from kedge.testing.conformance.case import FAILED, QUICK_RETRY, Case, job_report, same
from kedge.testing.wait import wait_until

_NEVER = {"minFailedInstances": -1, "minSucceededInstances": -1}
_TRANSIENT = "echo 'OSError: [Errno 98] Address already in use'"
_MISSING = """echo "ModuleNotFoundError: No module named 'nothing'" """


def _retried(most: int) -> dict[str, object]:
    return {"extras": {"kedge": {"retry": {"maxTransient": most, "backoffSec": 0.01}}}}


def _tries(kedge: Kedge, task: str = "worker-0") -> int:
    """In how many attempts of the job the task has said `try`."""
    return sum(kedge.said(task, attempt) == f"try {attempt}\n" for attempt in range(10))


def _three_tries(kedge: Kedge) -> None:
    same("attempts that ran", _tries(kedge), 3)


def _launch_order(kedge: Kedge) -> None:
    launched = [(event["role"], event["index"]) for event in kedge.events() if event["event"] == "task-launched"]
    same("order", launched, [("worker", 0), ("worker", 1), ("worker", 2), ("ps", 0), ("a", 0)])


def _root_is_worker_1(kedge: Kedge) -> None:
    root = job_report(kedge)["root"]
    same("root cause", (root["task"], root["cause"]), ("worker:1", "missing_module"))


def _first_success(kedge: Kedge) -> None:
    roles = {
        "master": {
            "commands": ["until [ -e $PAI_LOG_DIR/go ]; do sleep 0.1; done"],
            "completion": {"minFailedInstances": 1, "minSucceededInstances": 1},
        },
        "worker": {"commands": ["exit 3"], "instances": 2, "completion": {"minFailedInstances": -1}},
        "ps": {"commands": ["sleep 1000"], "completion": {"minSucceededInstances": -1}},
    }
    process = kedge.start("run", kedge.job("", roles=roles))
    wait_until(lambda: [event["event"] for event in kedge.events()].count("task-completed") == 2, TIMEOUT)
    (kedge.task("master-0") / "go").touch()
    kedge.finish(process, 0)
    states = {"master:0": "succeeded", "worker:0": "failed", "worker:1": "failed", "ps:0": "stopped"}
    same("states", {task["task"]: task["state"] for task in job_report(kedge)["tasks"]}, states)
    assert kedge.leftovers() == []


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "the first failure of a role fails the job": Case(
        "[ $PAI_TASK_INDEX = 0 ] || sleep 1000; echo failing; exit 3",
        roles={"worker": {"instances": 3}},
        code=FAILED,
        states={"worker:0": "failed", "worker:1": "stopped", "worker:2": "stopped"},
        prints=("^After it +2 other tasks were stopped$",),
    ),
    "the first success of a role can end the job": _first_success,
    "a job without conditions succeeds when all tasks are done": Case(
        "exit 1",
        roles={"worker": {"instances": 2, "completion": _NEVER}},
        states={"worker:0": "failed", "worker:1": "failed"},
        prints=("Succeeded",),
    ),
    "tasks start in the order of the file": Case(
        "true", roles={"worker": {"instances": 3}, "ps": {}, "a": {}}, more=_launch_order
    ),
    "unknown failures are retried as often as the job says": Case(
        "echo try $FC_FRAMEWORK_ATTEMPT_ID; exit 1",
        keys={"jobRetryCount": 2},
        code=FAILED,
        attempts=3,
        prints=("all 2 retries are used",),
        more=_three_tries,
    ),
    "permanent failures are not retried": Case(
        "kill -ILL $$", keys={"jobRetryCount": 5}, code=FAILED, attempts=1, prints=("permanent failure",)
    ),
    "transient failures are retried a limited number of times": Case(
        "echo try $FC_FRAMEWORK_ATTEMPT_ID; kill -TERM $$",
        keys=_retried(2),
        code=FAILED,
        attempts=3,
        prints=("given up after 2 retries of transient failures",),
        more=_three_tries,
    ),
    "a transient cause is retried whatever the exit code": Case(
        f"{_TRANSIENT}; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]",
        keys={"extras": QUICK_RETRY},
        attempts=2,
        prints=("attempt 2 starts", "transient failure"),
    ),
    "a permanent cause is not retried whatever the job says": Case(
        f"{_MISSING}; exit 1",
        keys={"jobRetryCount": 3},
        code=FAILED,
        attempts=1,
        prints=(r"missing_module \(permanent", "not retried: permanent failure"),
    ),
    "the same failure without progress is not retried for ever": Case(
        f"{_TRANSIENT}; exit 1",
        keys=_retried(4),
        code=FAILED,
        attempts=2,
        prints=("the attempt before failed in the same place and got as far",),
    ),
    "progress makes a retry worth while": Case(
        f"echo step $FC_FRAMEWORK_ATTEMPT_ID; {_TRANSIENT}; exit 1",
        keys=_retried(2),
        code=FAILED,
        attempts=3,
        prints=("given up after 2 retries",),
    ),
    "without gang allocation a task is retried alone": Case(
        "echo try $FC_TASK_ATTEMPT_ID; [ $PAI_TASK_INDEX = 0 ] || [ $FC_TASK_ATTEMPT_ID = 2 ]",
        roles={"worker": {"instances": 2, "taskRetryCount": 2}},
        keys={"extras": {"gangAllocation": False}},
        said={"worker-0": "try 0\n", "worker-1": "try 0\n", "worker-1.1": "try 1\n", "worker-1.2": "try 2\n"},
        attempts=1,
        prints=(r"^worker:1 +succeeded +3 ",),
    ),
    "a failed peer's loss is not the cause": Case(
        f"if [ $PAI_TASK_INDEX = 1 ]; then {_MISSING}; else echo 'ConnectionResetError: [Errno 104] Connection reset "
        "by peer'; fi; exit 1",
        roles={"worker": {"instances": 3, "completion": {"minFailedInstances": 3}}},
        code=FAILED,
        more=_root_is_worker_1,
    ),
}
