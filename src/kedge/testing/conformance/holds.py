"""Holds: the first task that fails stays alive for its user."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from kedge.contract import REPORT_FILE, TASK_FAILS
from kedge.errors import EXIT_FAILED, EXIT_INTERRUPTED
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.command import TIMEOUT, Kedge
from kedge.testing.conformance.case import job_report, same
from kedge.testing.wait import wait_until

_LONG = ("--hold-on-failure", "1h")


def _hook(event: str, command: str) -> dict[str, Any]:
    callbacks = [{"event": event, "commands": [command]}]
    return {"name": "hook", "type": "script", "plugin": "cmd", "callbacks": callbacks}


def _held(kedge: Kedge, job: object, *options: str) -> subprocess.Popen[str]:
    """Start a job, and wait until a task is held."""
    process = kedge.start("run", job, *options)
    wait_until(lambda: kedge.runs() and JobEvent.TASK_HELD in _events(kedge), TIMEOUT, "a task is held")
    return process


def _events(kedge: Kedge) -> list[str]:
    return [event["event"] for event in kedge.events()]


def _report(kedge: Kedge, task: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((kedge.task(task) / REPORT_FILE).read_text())
    return report


def released(kedge: Kedge) -> None:
    """Nothing is decided while a task is held, not even by another that fails; then all is as without the hold."""
    roles = {
        "first": {"commands": ["echo inside > seen; exit 7"], "prerequisites": ["hook"]},
        "second": {"commands": ["until [ -e $KEDGE_JOB_DIR/fail ]; do sleep 0.1; done; exit 8"]},
        "third": {"commands": ["while :; do echo beat; sleep 0.1; done"]},
    }
    hook = _hook("containerExit", "rm seen; touch $KEDGE_JOB_DIR/over")
    process = _held(kedge, kedge.job("", roles=roles, prerequisites=[hook]), *_LONG)
    run = kedge.only_run()
    same("a program in the held task", kedge("exec", run.name, "first:0", "--", "cat", "seen").stdout, "inside\n")
    assert re.search(rf"^{run.name} +held ", kedge("ps").stdout, re.MULTILINE)
    shown = kedge("show", run.name).stdout
    assert re.search(rf"^first:0 +held .*^ +kedge exec {run.name} first:0 .*release", shown, re.MULTILINE | re.DOTALL)
    (kedge.job_dir() / "fail").touch()
    wait_until(lambda: (kedge.task("second-0") / REPORT_FILE).exists(), TIMEOUT)
    beats = kedge.task_log("third-0").count("beat")
    wait_until(lambda: kedge.task_log("third-0").count("beat") > beats + 2, TIMEOUT)
    assert not (kedge.job_dir() / "over").exists(), "an exit hook ran during the hold"
    same("release", kedge("release", run.name).stdout, f"first:0 of {run.name} is released\n")
    printed = kedge.finish(process, EXIT_FAILED)
    assert f"end with kedge release {run.name}" in printed, printed
    states = {task["task"]: task["state"] for task in job_report(kedge)["tasks"]}
    same("states", states, {"first:0": State.FAILED, "second:0": State.FAILED, "third:0": State.STOPPED})
    codes = [_report(kedge, f"{role}-0")["user_exit_code"] for role in ("first", "second")]
    same("codes", codes, [7, 8])
    assert (kedge.job_dir() / "over").exists()
    same("held tasks", _events(kedge).count(JobEvent.TASK_HELD), 1)
    assert kedge.leftovers() == []


def stopped(kedge: Kedge) -> None:
    process = _held(kedge, kedge.job("exit 7"), *_LONG)
    process.send_signal(signal.SIGINT)
    assert "by Ctrl-C" in kedge.finish(process, EXIT_INTERRUPTED)
    report = _report(kedge, "worker-0")
    facts = report["user_exit_code"], report["exit_code"], report["stopped_by"], report["killed"]
    same("report", facts, (7, 255, None, False))
    assert kedge.leftovers() == []


def over_in_time(kedge: Kedge) -> None:
    """The hold ends by itself, and only the first failure of a run is held."""
    retry = {"kedge": {"retry": {"backoffSec": 0.01}}}
    process = _held(kedge, kedge.job("exit 7", jobRetryCount=1, extras=retry), "--hold-on-failure", "0.5")
    kedge.finish(process, EXIT_FAILED)
    events = _events(kedge)
    same("attempts", events.count(JobEvent.ATTEMPT_STARTED), 2)
    same("held tasks", events.count(JobEvent.TASK_HELD), 1)
    assert _report(kedge, "worker-0")["user_exit_code"] == 7
    assert "holds no task" in kedge("release", kedge.only_run().name, code=2).stderr
    assert kedge.leftovers() == []


def within_the_time_limit(kedge: Kedge) -> None:
    limit = {"kedge": {"timeLimit": "9s"}}
    process = _held(kedge, kedge.job("exit 7", extras=limit), *_LONG)
    printed = kedge.finish(process, EXIT_FAILED)
    assert "the command exited with code 7; not retried" in printed, printed
    assert JobEvent.TIME_LIMIT_REACHED not in _events(kedge)
    assert kedge.leftovers() == []


def by_a_sleeping_hook(kedge: Kedge) -> None:
    """The way without kedge's own hold: a hook of a failed task that waits."""
    hook = _hook(TASK_FAILS, "touch $KEDGE_JOB_DIR/begun; until [ -e $KEDGE_JOB_DIR/go ]; do sleep 0.1; done")
    job = kedge.job("echo inside > seen; exit 7", roles={"worker": {"prerequisites": ["hook"]}}, prerequisites=[hook])
    process = kedge.start("run", job)
    wait_until(lambda: kedge.runs() and (kedge.job_dir() / "begun").exists(), TIMEOUT)
    run = kedge.only_run()
    same("a program", kedge("exec", run.name, "worker:0", "--", "cat", "seen").stdout, "inside\n")
    (kedge.job_dir() / "go").touch()
    kedge.finish(process, EXIT_FAILED)
    assert _report(kedge, "worker-0")["user_exit_code"] == 7


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "a failed task is held until it is released": released,
    "a stop ends a hold at once": stopped,
    "a hold ends by itself, and only the first failure is held": over_in_time,
    "a hold ends before the time limit": within_the_time_limit,
    "a hook of a failed task that waits holds it, too": by_a_sleeping_hook,
}
