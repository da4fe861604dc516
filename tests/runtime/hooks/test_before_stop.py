"""Hooks that run before the command is stopped, while it goes on."""

from __future__ import annotations

import signal

import pytest

from kedge import contract
from kedge.contract import Retry, StopPolicy
from kedge.testing.wait import wait_until

NEVER = 1000.0
COMMAND = "trap 'echo told; exit 0' TERM; trap 'echo saved' USR1; touch ready; while :; do sleep 0.01 || true; done"


def hooks(attempt):
    """Step and side of every hook that was started."""
    return [(e["step"], e["side"]) for e in attempt.events if e["event"] == contract.HOOK_STARTED]


@pytest.fixture
def running(attempt, step):
    """Starts the command with steps of these scripts at beforeStop, and waits until it is ready."""

    def start(*scripts, stop=StopPolicy("TERM", NEVER), command=COMMAND, **changes):
        steps = tuple(step(f"h{n}", beforeStop=script)._replace(**changes) for n, script in enumerate(scripts))
        attempt.spec = attempt.spec._replace(steps=steps, stop=stop)
        attempt.start(command)
        attempt.wait_for("ready")

    return start


def test_they_run_before_the_signal_in_reverse_order_with_the_pid_of_the_command(attempt, running):
    save = "echo first; kill -USR1 $KEDGE_COMMAND_PID; while ! grep saved $PAI_LOG_DIR/user-stdout/current; do :; done"
    running("echo second; grep -c told $PAI_LOG_DIR/user-stdout/current || true", save)
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 0
    assert attempt.stream("user-stdout") == b"saved\ntold\n"
    lines = [line for line in attempt.log if not line.startswith("[")]
    assert lines == ["first", "saved", "second", "0"]
    assert hooks(attempt) == [("h1", "stop"), ("h0", "stop")]
    assert attempt.report["stopped_by"] == "TERM"


def test_they_get_the_pids_of_the_programs_that_the_shell_runs(attempt, running):
    running(
        "kill -USR1 $KEDGE_PROGRAM_PIDS; until [ -e $PAI_WORK_DIR/got ]; do sleep 0; done; kill -0 $KEDGE_COMMAND_PID",
        command="sh -c 'trap \"touch got\" USR1; touch ready; while :; do sleep 0.01; done'",
    )
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    attempt.wait_for("got")
    assert attempt.report["hooks"] is None


@pytest.mark.parametrize("changes", [{}, {"policy": "ignore"}, {"retry": Retry(3, NEVER)}])
def test_a_failure_does_not_prevent_the_stop(attempt, running, changes):
    running("echo one; false", "echo two; exit 7", **changes)
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 0
    assert attempt.stream("user-stdout") == b"told\n"
    assert [line for line in attempt.log if not line.startswith("[")] == ["two", "one"]
    assert [(hook["event"], hook["code"]) for hook in attempt.report["hooks"]] == [("beforeStop", 7), ("beforeStop", 1)]


def test_a_time_out_ends_the_hook_and_leaves_the_processes_of_the_command_alone(attempt, running):
    forking = "touch ready; trap 'wait; echo told; exit 0' TERM; while :; do (sleep 0.05; echo child) & wait; done"
    running("(trap '' TERM; sleep 1000) & sleep 1000", command=forking, timeout_sec=0.3)
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 0
    printed = attempt.stream("user-stdout").split()
    assert printed[-1] == b"told"
    assert b"Killed" not in attempt.stream("user-stderr")
    assert any("did not end within 0.3 seconds" in line for line in attempt.log)


def test_the_grace_period_ends_for_the_hook_and_the_command(attempt, running, alive):
    running("echo $$ >pid; sleep 1000", stop=StopPolicy("TERM", 0.3))
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 137
    assert attempt.stream("user-stdout") == b""
    assert attempt.report["killed"] is True
    assert not alive(int((attempt.folder / "work" / "pid").read_text()))


def test_a_second_request_ends_the_hook_at_once_and_starts_no_other(attempt, running):
    running("echo never", "touch begun; sleep 1000")
    attempt.signal(signal.SIGTERM)
    attempt.wait_for("begun")
    attempt.signal(signal.SIGINT)
    assert attempt.wait() == 137
    assert hooks(attempt) == [("h1", "stop")]


def test_a_command_that_ends_while_the_hook_runs_is_fine(attempt, running):
    running("kill -TERM $KEDGE_COMMAND_PID; while kill -0 $KEDGE_COMMAND_PID; do sleep 0.01; done; echo uploaded")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 0
    assert "uploaded" in attempt.log
    assert attempt.stream("user-stdout") == b"told\n"


def test_without_a_command_nothing_runs_before_the_stop(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("save", beforeStop="echo never"), step("slow", taskStarts="touch ready; sleep 1000"))
    )
    attempt.start("touch started")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert "never" not in attempt.log


def test_nothing_runs_before_the_stop_of_a_command_that_has_ended(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("save", beforeStop="echo never", containerExit="touch ready; sleep 1000"),)
    )
    attempt.start("true")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    attempt.wait()
    assert "never" not in attempt.log


def test_other_signals_reach_the_command_while_a_hook_runs(attempt, running):
    running("touch begun; while [ ! -e over ]; do sleep 0.01; done")
    attempt.signal(signal.SIGTERM)
    attempt.wait_for("begun")
    attempt.signal(signal.SIGUSR1)
    wait_until(lambda: b"saved" in attempt.stream("user-stdout"))
    (attempt.folder / "work" / "over").touch()
    assert attempt.wait() == 0
