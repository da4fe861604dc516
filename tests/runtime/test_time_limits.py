"""Time limits of an attempt, and the hooks that run before one passes."""

from __future__ import annotations

import signal

import pytest

from kedge import contract
from kedge.contract import JOB_TIME_LIMIT, StopPolicy, TaskTimeLimit

NEVER = 1000.0
KEY = "extras.kedge.attemptTimeLimit"
SLEEP = "touch ready; sleep 1000"
SAVING = "trap 'echo told; exit 0' TERM; while :; do sleep 0.01 || true; done"


@pytest.mark.parametrize(
    ("limit", "behaviour"),
    [(TaskTimeLimit(KEY, 1.0), "unknown"), (TaskTimeLimit(JOB_TIME_LIMIT, 7200, 1.0), "permanent")],
)
@pytest.mark.parametrize(("command", "code"), [(SLEEP, 143), (SAVING, 0), ("trap 'exit 7' TERM; sleep 9 & wait", 7)])
def test_a_limit_ends_the_attempt_however_the_command_takes_it(attempt, limit, behaviour, command, code):
    attempt.spec = attempt.spec._replace(time_limits=(TaskTimeLimit("x", NEVER), limit))
    assert attempt.run(command) == 255
    report = attempt.report
    assert (report["reason"], report["user_exit_code"], report["stopped_by"]) == (contract.TIME_LIMIT, code, None)
    length = "1 s" if behaviour == "unknown" else "2 h"
    assert report["message"] == f"stopped after {length} ({limit.key})"
    assert (report["time_limit"], report["limit_reached"] < report["ended"]) == (limit.key, True)
    found = report["diagnosis"]
    assert (found["cause"], found["behavior"], found["confidence"]) == ("time_limit", behaviour, "sure")
    (stopping,) = [event for event in attempt.events if event["event"] == contract.STOPPING]
    assert (stopping["signal"], stopping["limit"]) == (None, limit.key)


def test_an_error_after_the_stop_is_not_the_cause(attempt):
    attempt.spec = attempt.spec._replace(time_limits=(TaskTimeLimit(KEY, 1.0),))
    error = 'Traceback (most recent call last):\\n  File "a.py", line 1, in <module>\\nMemoryError\\n'
    attempt.run(f"trap 'printf '\\''{error}'\\'' >&2; exit 1' TERM; sleep 9 & wait")
    assert b"MemoryError" in attempt.stream("user-stderr")
    assert attempt.report["diagnosis"]["cause"] == "time_limit"


def test_a_command_that_ends_in_time_is_not_affected(attempt, step):
    attempt.spec = attempt.spec._replace(time_limits=(TaskTimeLimit(KEY, NEVER),), warn_before_sec=1.0)
    assert attempt.run("true") == 0
    assert attempt.report["time_limit"] is None


@pytest.mark.parametrize("event", ["taskStarts", "taskSucceeds"])
def test_hooks_count_into_the_limit(attempt, step, event):
    attempt.spec = attempt.spec._replace(
        steps=(step("slow", **{event: "sleep 1000"}),), time_limits=(TaskTimeLimit(KEY, 0.3),)
    )
    assert attempt.run("touch started") == 255
    assert attempt.report["message"] == f"stopped after 0.3 s ({KEY})"
    assert attempt.report["diagnosis"]["cause"] == "time_limit"


def test_the_stop_request_of_the_controller_for_the_same_limit_does_not_end_the_grace_period(attempt):
    attempt.spec = attempt.spec._replace(time_limits=(TaskTimeLimit(KEY, 0.2),), stop=StopPolicy("TERM", NEVER))
    attempt.start(
        "trap 'touch told; while [ ! -e over ]; do sleep 0.01; done; echo saved; exit 0' TERM; sleep 9 & wait"
    )
    attempt.wait_for("told")
    attempt.signal(signal.SIGTERM)
    attempt.wait_for_event(contract.STOPPING)
    (attempt.folder / "work" / "over").touch()
    assert attempt.wait() == 255
    assert attempt.stream("user-stdout") == b"saved\n"


def test_a_second_request_after_a_limit_kills(attempt):
    attempt.spec = attempt.spec._replace(time_limits=(TaskTimeLimit(KEY, 0.2),), stop=StopPolicy("TERM", NEVER))
    attempt.start("trap 'touch told' TERM; while :; do sleep 0.01 || true; done")
    attempt.wait_for("told")
    attempt.signal(signal.SIGTERM)
    attempt.signal(signal.SIGINT)
    assert attempt.wait() == 255
    assert (attempt.report["killed"], attempt.report["user_exit_code"]) == (True, 137)


def test_hooks_run_before_the_limit_and_not_again(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("save", beforeStop="echo saved; kill -USR1 $KEDGE_COMMAND_PID"),),
        time_limits=(TaskTimeLimit(KEY, 1.0),),
        warn_before_sec=0.7,
    )
    attempt.run("trap 'echo asked' USR1; trap 'echo told; exit 0' TERM; while :; do sleep 0.01 || true; done")
    assert attempt.stream("user-stdout") == b"asked\ntold\n"
    assert attempt.log.count("saved") == 1
    (announced,) = [event for event in attempt.events if event["event"] == contract.STOP_ANNOUNCED]
    assert (announced["by"], announced["text"]) == (KEY, f"{KEY} of 1 s ends in 0.7 s")


def test_hooks_that_still_run_when_the_limit_passes_end_before_the_signal(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("save", beforeStop="until grep -q stopping $PAI_LOG_DIR/events.jsonl; do :; done; echo saved"),),
        time_limits=(TaskTimeLimit(KEY, 0.5),),
        warn_before_sec=0.4,
    )
    attempt.run(SAVING)
    assert "saved" in attempt.log
    assert attempt.stream("user-stdout") == b"told\n"
    assert attempt.report["killed"] is False


def test_a_notice_runs_the_hooks_while_the_command_goes_on(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("save", beforeStop="touch saved"),))
    attempt.start("trap 'echo told; exit 0' TERM; touch ready; while [ ! -e over ]; do sleep 0.01; done; echo done")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGPWR)
    attempt.wait_for("saved")
    attempt.signal(signal.SIGPWR)
    (attempt.folder / "work" / "over").touch()
    assert attempt.wait() == 0
    assert attempt.stream("user-stdout") == b"done\n"
    assert [event["by"] for event in attempt.events if event["event"] == contract.STOP_ANNOUNCED] == ["notice"]


def test_a_notice_without_a_command_does_nothing(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("slow", taskStarts="touch ready; until [ -e over ]; do sleep 0.01; done", beforeStop="echo never"),)
    )
    attempt.start("true")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGPWR)
    (attempt.folder / "work" / "over").touch()
    assert attempt.wait() == 0
    assert "never" not in attempt.log
