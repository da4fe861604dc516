"""Time limits, and what runs before one passes or a task is ended from outside."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from kedge.contract import BEFORE_STOP, REPORT_FILE, TIME_LIMIT
from kedge.errors import EXIT_FAILED
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.command import TIMEOUT, Kedge
from kedge.testing.conformance.case import ConformanceCase, job_report, runtime_log, same
from kedge.testing.wait import wait_until

_GRACEFUL = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1 || true; done"
_FAILED_PEER = "trap 'echo RuntimeError: lost a peer >&2; exit 1' TERM; echo ready; while :; do sleep 0.1 || true; done"
_TRACEBACK = 'Traceback (most recent call last):\\n  File "a.py", line 1, in <module>\\nKeyError: 1\\n'
_CRASH = f"printf '{_TRACEBACK}' >&2; exit 1"


def _settings(**settings: Any) -> dict[str, Any]:
    return {"extras": {"kedge": {"retry": {"backoffSec": 0.01}, **settings}}, "jobRetryCount": 3}


def _cause(kedge: Kedge, task: str | None, key: str) -> None:
    """Check the root cause of the job: a time limit."""
    root = job_report(kedge)["root"]
    same("root", (root["task"], root["cause"], root["confidence"]), (task, "time_limit", "sure"))
    assert key in root["meaning"], root["meaning"]


def _task_report(kedge: Kedge, task: str = "worker-0", attempt: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((kedge.task(task, attempt) / REPORT_FILE).read_text())
    return report


def _hook(commands: str) -> dict[str, Any]:
    callbacks = [{"event": BEFORE_STOP, "commands": [commands]}]
    return {"name": "save", "type": "script", "plugin": "cmd", "callbacks": callbacks}


def notice(kedge: Kedge) -> None:
    command = "echo ready; while [ ! -e $KEDGE_JOB_DIR/checkpoint ]; do sleep 0.1; done; echo goes on"
    roles = {"worker": {"instances": 2, "prerequisites": ["save"]}}
    hook = _hook(
        "echo $PAI_TASK_INDEX > $KEDGE_JOB_DIR/saved-$PAI_TASK_INDEX; test -e $KEDGE_JOB_DIR/saved-0 -a "
        "-e $KEDGE_JOB_DIR/saved-1 && touch $KEDGE_JOB_DIR/checkpoint || true"
    )
    process = kedge.start("run", kedge.job(command, roles=roles, prerequisites=[hook]))
    for task in ("worker-0", "worker-1"):
        kedge.wait_for_output("ready", task)
    wait_until(lambda: [event["event"] for event in kedge.events()].count(JobEvent.TASK_LAUNCHED) == 2, TIMEOUT)
    os.kill(kedge.controller(), signal.SIGUSR2)
    printed = kedge.finish(process, 0)
    same("the log", kedge.task_log(), "ready\ngoes on\n")
    same("lines", printed.count("hooks before the stop run now"), 1)
    assert kedge.leftovers() == []


def suspended_controller(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(_GRACEFUL, **_settings(timeLimit="3s")))
    kedge.wait_for_output("ready")
    os.kill(kedge.controller(), signal.SIGSTOP)
    wait_until((kedge.task() / REPORT_FILE).exists, TIMEOUT)
    same("reason", _task_report(kedge)["reason"], TIME_LIMIT)
    os.kill(kedge.controller(), signal.SIGCONT)
    assert "stopped after 3 s (extras.kedge.timeLimit)" in kedge.finish(process, EXIT_FAILED)
    same("attempts", job_report(kedge)["attempts"], 1)
    assert kedge.leftovers() == []


def _of_the_run(kedge: Kedge) -> None:
    _cause(kedge, None, "extras.kedge.timeLimit")
    for task in ("worker-0", "worker-1"):
        assert "saved" in kedge.task_log(task)
        same("reason", _task_report(kedge, task)["reason"], TIME_LIMIT)


def _of_attempts(kedge: Kedge) -> None:
    _cause(kedge, "worker:0", "extras.kedge.attemptTimeLimit")
    same("reason of the first attempt", _task_report(kedge)["reason"], TIME_LIMIT)


def _asked_and_told(kedge: Kedge) -> None:
    same("hooks", runtime_log(kedge).count("hook"), 1)
    log = kedge.task_log()
    assert -1 < log.find("asked") < log.find("told"), log


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "a time limit of the whole run": ConformanceCase(
        _GRACEFUL,
        roles={"worker": {"instances": 2}},
        keys=_settings(timeLimit="3s"),
        code=EXIT_FAILED,
        states={"worker:0": State.STOPPED, "worker:1": State.STOPPED},
        attempts=1,
        prints=(r"Failed in .*: stopped after 3 s \(extras.kedge.timeLimit\)$",),
        more=_of_the_run,
    ),
    "a time limit ends the pause before a retry": ConformanceCase(
        "kill -KILL $$",
        keys={"extras": {"kedge": {"timeLimit": "2s", "retry": {"backoffSec": 600}}}},
        code=EXIT_FAILED,
        prints=(r"Failed in .*: stopped after 2 s \(extras.kedge.timeLimit\)$",),
        more=lambda kedge: _cause(kedge, None, "extras.kedge.timeLimit"),
    ),
    "a time limit of the tasks of a role": ConformanceCase(
        roles={"worker": {"commands": [_GRACEFUL]}, "other": {"commands": [_FAILED_PEER]}},
        keys=_settings(taskRoles={"worker": {"timeLimit": "1.5s"}}),
        code=EXIT_FAILED,
        states={"worker:0": State.FAILED, "other:0": State.STOPPED},
        attempts=1,
        prints=(r"worker:0: stopped after 1.5 s \(extras.kedge.taskRoles.worker.timeLimit\); not retried",),
        more=lambda kedge: _cause(kedge, "worker:0", "extras.kedge.taskRoles.worker.timeLimit"),
    ),
    "a time limit of attempts, with the retries that the user asked for": ConformanceCase(
        _GRACEFUL,
        keys=_settings(attemptTimeLimit="1s") | {"jobRetryCount": 1},
        code=EXIT_FAILED,
        report={"reason": TIME_LIMIT, "exit_code": 255},
        attempts=2,
        prints=(r"worker:0: stopped after 1 s \(extras.kedge.attemptTimeLimit\); not retried: the only retry is used",),
        more=_of_attempts,
    ),
    "a peer that fails because a task is stopped at a limit is not the cause": ConformanceCase(
        roles={
            "worker": {"commands": ["trap 'touch $KEDGE_JOB_DIR/gone; sleep 1; exit 0' TERM; sleep 1000 & wait"]},
            "peer": {"commands": ["until [ -e $KEDGE_JOB_DIR/gone ]; do sleep 0.1; done", _CRASH]},
        },
        keys=_settings(taskRoles={"worker": {"attemptTimeLimit": "2s"}}) | {"jobRetryCount": 0},
        code=EXIT_FAILED,
        states={"worker:0": State.FAILED, "peer:0": State.FAILED},
        prints=(r"worker:0: stopped after 2 s \(extras.kedge.taskRoles.worker.attemptTimeLimit\); not retried",),
        more=lambda kedge: _cause(kedge, "worker:0", "extras.kedge.taskRoles.worker.attemptTimeLimit"),
    ),
    "hooks run before a time limit, and not again when it has passed": ConformanceCase(
        "trap 'echo asked' USR1; trap 'echo told; exit 0' TERM; while :; do sleep 0.1 || true; done",
        roles={"worker": {"prerequisites": ["save"]}},
        keys=_settings(attemptTimeLimit="3s", warnBefore="1s")
        | {"jobRetryCount": 0, "prerequisites": [_hook("kill -USR1 $KEDGE_COMMAND_PID; echo hook")]},
        code=EXIT_FAILED,
        prints=("^kedge: extras.kedge.attemptTimeLimit of 3 s ends in 1 s; hooks before the stop run now$",),
        more=_asked_and_told,
    ),
    "a time limit while the controller is suspended": suspended_controller,
    "a notice of the place where the job runs": notice,
}
