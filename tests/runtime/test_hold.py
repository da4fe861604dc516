"""A failed task that is held for its user before it ends."""

from __future__ import annotations

import signal
from datetime import datetime

import pytest

from kedge import contract
from kedge.contract import Callback, Step, TaskTimeLimit

WAITS = "while :; do sleep 0.05; done"


def held(attempt, command, **spec):
    """Start an attempt and wait until it is held."""
    attempt.spec = attempt.spec._replace(**{"hold_sec": 3600.0, **spec})
    attempt.start(command)
    return attempt.wait_for_event(contract.HELD)


def test_a_held_task_keeps_its_services_and_its_outcome(attempt, step, alive):
    side = Step("side", (Callback(contract.TASK_STARTS, (f"echo $$ > side.pid; {WAITS}",), service="side"),))
    event = held(
        attempt, "until [ -s side.pid ]; do sleep 0.02; done; exit 7", steps=(side, step("x", taskFails="touch f"))
    )
    assert (event["code"], event["message"]) == (7, "the command exited with code 7")
    work = attempt.folder / "work"
    assert alive(int((work / "side.pid").read_text()))
    assert not (work / "f").exists(), "exit hooks run after the hold"
    attempt.signal(signal.SIGPWR)
    assert attempt.wait() == 255
    assert (work / "f").exists()
    report = attempt.report
    assert (report["user_exit_code"], report["stopped_by"]) == (7, None)
    assert datetime.fromisoformat(report["ended"]) <= datetime.fromisoformat(event["time"])
    assert report["diagnosis"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_the_hold_and_changes_nothing_of_the_report(attempt, number):
    held(attempt, "exit 7")
    attempt.signal(number)
    assert attempt.wait() == 255
    report = attempt.report
    facts = report["user_exit_code"], report["reason"], report["stopped_by"], report["killed"]
    assert facts == (7, contract.COMMAND_FAILED, None, False)


def test_a_failed_start_hook_is_held(attempt, step):
    held(attempt, "true", steps=(step("x", taskStarts="exit 5"),))
    attempt.signal(signal.SIGPWR)
    attempt.wait()
    assert attempt.report["reason"] == contract.HOOK_FAILED


def test_a_hold_ends_before_a_time_limit(attempt):
    limit = TaskTimeLimit("extras.kedge.attemptTimeLimit", 2.0)
    event = held(attempt, "exit 7", time_limits=(limit,))
    assert event["hold_sec"] <= 1.8
    attempt.wait()
    assert (attempt.report["user_exit_code"], attempt.report["time_limit"]) == (7, None)


@pytest.mark.parametrize("command", ["true", "kill -TERM $PPID; sleep 1000"])
def test_a_task_that_succeeds_or_is_stopped_is_not_held(attempt, command):
    attempt.spec = attempt.spec._replace(hold_sec=3600.0)
    attempt.run(command)
    assert contract.HELD not in [event["event"] for event in attempt.events]


def test_a_notice_before_the_failure_does_not_end_the_hold(attempt):
    attempt.spec = attempt.spec._replace(hold_sec=3600.0)
    attempt.start("touch ready; until [ -e go ]; do sleep 0.02; done; exit 7")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGPWR)
    (attempt.folder / "work/go").touch()
    attempt.wait_for_event(contract.HELD)
    attempt.signal(signal.SIGTERM)
    attempt.wait()
    assert attempt.report["user_exit_code"] == 7
