"""Hooks: order, outcomes, policies, and where their output goes."""

from __future__ import annotations

import pytest

from kedge import contract
from kedge.contract import Callback, Step

EVENTS = ("taskStarts", "taskSucceeds", "taskFails", "containerExit")


def all_events(step, policy="fail", **ends):
    """A step whose hooks print their names and then run the commands in `ends`."""
    return step("item", policy, **{event: f"echo {event}; {ends.get(event, 'true')}" for event in EVENTS})


def said(attempt):
    return [line for line in attempt.log if line in EVENTS]


@pytest.mark.parametrize(
    ("policy", "ends", "command", "lines", "code"),
    [
        ("fail", {}, 0, ["taskStarts", "taskSucceeds", "containerExit"], 0),
        ("fail", {}, 3, ["taskStarts", "taskFails", "containerExit"], 3),
        ("fail", {"taskStarts": "exit 7"}, 0, ["taskStarts", "taskFails", "containerExit"], 7),
        ("fail", {"taskSucceeds": "exit 5"}, 0, ["taskStarts", "taskSucceeds", "containerExit"], 5),
        ("fail", {"containerExit": "exit 6"}, 0, ["taskStarts", "taskSucceeds", "containerExit"], 6),
        ("fail", {"taskFails": "exit 5"}, 3, ["taskStarts", "taskFails", "containerExit"], 3),
        ("ignore", {"taskStarts": "exit 7"}, 0, ["taskStarts", "taskSucceeds", "containerExit"], 0),
        ("Ignore", {"taskSucceeds": "false; true"}, 0, ["taskStarts", "taskSucceeds", "containerExit"], 0),
    ],
)
def test_outcome_matrix(attempt, step, policy, ends, command, lines, code):
    attempt.spec = attempt.spec._replace(steps=(all_events(step, policy, **ends),))
    status = attempt.run(f"exit {command}")
    assert said(attempt) == lines
    assert attempt.report["user_exit_code"] == code
    assert status == contract.container_code(code) == attempt.report["exit_code"]
    hook_failed = code not in (0, command)
    assert (attempt.report["reason"] == contract.HOOK_FAILED) == hook_failed
    assert ("[INFO] USER COMMAND START" in attempt.log) == (ends.get("taskStarts") != "exit 7" or policy == "ignore")


def test_exit_hooks_run_in_reverse_order(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(
            step("first", taskStarts="echo 111", taskSucceeds="echo 222"),
            step("later", taskStarts="echo aaa", taskSucceeds="echo bbb"),
            step("extra", taskStarts="echo extra", taskSucceeds="echo extrapost"),
        )
    )
    assert attempt.run("echo user") == 0
    assert [line for line in attempt.log if not line.startswith("[INFO]")] == [
        "111", "aaa", "extra", "extrapost", "bbb", "222",
    ]  # fmt: skip
    assert attempt.log.index("extra") + 1 == attempt.log.index("[INFO] Precommands finished")
    assert attempt.log.index("[INFO] USER COMMAND END") + 1 == attempt.log.index("extrapost")
    sides = [(e["step"], e["side"]) for e in attempt.events if e["event"] == contract.HOOK_STARTED]
    assert sides == [(s, "start") for s in ("first", "later", "extra")] + [
        (s, "exit") for s in ("extra", "later", "first")
    ]


def test_after_a_failed_start_hook_only_steps_that_began_run_exit_hooks(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(
            step("no-start", containerExit="echo entered"),
            step("fails", taskStarts="exit 9", containerExit="echo failed"),
            step("never", taskStarts="echo never", containerExit="echo never"),
        )
    )
    assert attempt.run("echo never") == 255
    assert attempt.log == [
        "[INFO] Starting to exec precommands",
        "[WARNING] a hook of fails exited with code 9 in: exit 9",
        "failed",
        "entered",
    ]
    assert attempt.stream("user-all") == b""


def test_the_callbacks_of_one_event_share_a_shell(attempt):
    callbacks = (Callback("taskStarts", ("cd /; name=value",)), Callback("taskStarts", ("pwd; echo $name",)))
    attempt.spec = attempt.spec._replace(steps=(Step("item", callbacks),))
    attempt.run("true")
    assert attempt.log[1:3] == ["/", "value"]


def test_callbacks_run_in_listed_order(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("item", containerExit="echo exit", taskSucceeds="echo success"),))
    attempt.run("true")
    assert attempt.log[-2:] == ["exit", "success"]


def test_both_streams_of_a_hook_are_logged_unchanged(attempt, step):
    script = r"printf '  two blanks  \n' >&2; printf 'back\\slash\r\n'; printf '\377\n'; printf 'no newline'"
    attempt.spec = attempt.spec._replace(steps=(step("item", taskStarts=script),))
    attempt.run("true")
    assert attempt.log[1:6] == [
        "  two blanks  ", "back\\slash\r", "\udcff", "no newline", "[INFO] Precommands finished",
    ]  # fmt: skip


def test_all_output_of_a_hook_comes_before_the_next_marker(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("item", taskStarts="seq 20000"),))
    attempt.run("true")
    assert attempt.log[1:20002] == [*map(str, range(1, 20001)), "[INFO] Precommands finished"]


def test_a_background_process_of_a_hook_goes_on_and_may_log_later(attempt, step):
    helper = "(while [ ! -e go ]; do sleep 0.01; done; echo late; touch done) & echo early"
    attempt.spec = attempt.spec._replace(steps=(step("item", taskStarts=helper),))
    attempt.run("touch go; while [ ! -e done ]; do sleep 0.01; done")
    assert attempt.log[:3] == ["[INFO] Starting to exec precommands", "early", "[INFO] Precommands finished"]
    assert "late" in attempt.log


def test_lines_written_to_the_log_pipe_are_logged(attempt):
    attempt.run('echo "from the command" >"$RUNTIME_LOG_PIPE"; printf "no newline" >"$RUNTIME_LOG_PIPE"')
    assert "from the command" in attempt.log
    assert "no newline" in attempt.log
    assert not (attempt.folder / "pai/runtime.d/runtime_log_pipe").exists()
