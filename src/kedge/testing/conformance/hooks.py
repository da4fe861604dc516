"""Hooks, which run before and after a command."""

from __future__ import annotations

from typing import Any

from kedge import contract
from kedge.contract import TASK_FAILS, TASK_STARTS, TASK_SUCCEEDS
from kedge.errors import EXIT_FAILED
from kedge.testing.command import Kedge
from kedge.testing.conformance.case import ConformanceCase, runtime_log

_COUNT = "echo try >> $PAI_LOG_DIR/tries; test $(wc -l < $PAI_LOG_DIR/tries) -eq 3"
_STARTS = ("[INFO] Starting to exec precommands", "[INFO] Precommands finished")
_COMMAND = ("[INFO] USER COMMAND START", "[INFO] USER COMMAND END")


def _hook(name: str, commands: dict[str, str], **keys: Any) -> dict[str, Any]:
    callbacks = [{"event": event, "commands": [command]} for event, command in commands.items()]
    return {"name": name, "type": "script", "plugin": "cmd", "callbacks": callbacks, **keys}


def _case(*hooks: dict[str, Any], commands: str = "echo command", **seen: Any) -> ConformanceCase:
    return ConformanceCase(
        commands,
        roles={"worker": {"prerequisites": [hook["name"] for hook in hooks]}},
        keys={"prerequisites": list(hooks), "parameters": {"x": 1.0}},
        **seen,
    )


def _printing(name: str) -> dict[str, Any]:
    """A hook that prints its name and the event on every event."""
    events = (TASK_STARTS, TASK_SUCCEEDS, TASK_FAILS, "containerExit")
    return _hook(name, {event: f"echo {name} {event} <% $parameters.x %>" for event in events})


def _service(name: str, command: str) -> dict[str, Any]:
    """A hook that starts a service of the same name."""
    hook = _hook(name, {TASK_STARTS: command})
    hook["callbacks"][0]["service"] = name
    return hook


def _has_said_bye(kedge: Kedge) -> None:
    assert "[a] bye" in runtime_log(kedge), runtime_log(kedge)


BEHAVIOURS = {
    "hooks start in order and end in reverse": _case(
        _printing("a"),
        _printing("b"),
        logs="command\n",
        runtime=(
            _STARTS[0], "a taskStarts 1.0", "b taskStarts 1.0", _STARTS[1], *_COMMAND,
            "b taskSucceeds 1.0", "b containerExit 1.0", "a taskSucceeds 1.0", "a containerExit 1.0",
        ),
    ),
    "hooks after a failure": _case(
        _printing("a"),
        commands="exit 3",
        code=EXIT_FAILED,
        report={"reason": contract.COMMAND_FAILED, "user_exit_code": 3},
        runtime=(
            _STARTS[0], "a taskStarts 1.0", _STARTS[1], _COMMAND[0], "[INFO] User command failed with exit code 3",
            "a taskFails 1.0", "a containerExit 1.0",
        ),
    ),
    "the command does not run if a start hook fails": _case(
        _hook("a", {TASK_STARTS: "exit 5", TASK_FAILS: "echo failed", "containerExit": "echo exit"}),
        code=EXIT_FAILED,
        logs="",
        report={"reason": contract.HOOK_FAILED, "user_exit_code": 5},
    ),
    "a hook failure can be ignored": _case(
        _hook("a", {TASK_STARTS: "exit 5"}, failurePolicy="ignore"),
        logs="command\n",
        report={"reason": contract.SUCCEEDED, "user_exit_code": 0},
    ),
    "a failed hook after a successful command fails the task": _case(
        _hook("a", {TASK_SUCCEEDS: "exit 5"}),
        code=EXIT_FAILED,
        report={"reason": contract.HOOK_FAILED, "user_exit_code": 5},
    ),
    "a hook is retried": _case(
        _hook("a", {TASK_STARTS: _COUNT}, retry={"max": 2, "delaySec": 0.01}),
        logs="command\n",
        prints=("^kedge: worker:0: hook a failed: exited with code 1.*; try 2 of 3 in 0.0 s", "; try 3 of 3 in"),
    ),
    "a hook has a time limit": _case(
        _hook("a", {TASK_STARTS: "sleep 1000"}, timeoutSec=0.5),
        code=EXIT_FAILED,
        logs="",
        report={"reason": contract.HOOK_FAILED},
    ),
    "a service runs beside the command until its task has ended": _case(
        _service("a", "trap 'echo bye; exit 0' TERM; touch $PAI_LOG_DIR/a; while :; do sleep 0.1; done"),
        commands="until [ -e $PAI_LOG_DIR/a ]; do sleep 0.1; done; echo command",
        logs="command\n",
        report={"reason": contract.SUCCEEDED, "exit_code": 0},
        more=_has_said_bye,
    ),
    "the death of a service does not fail the task": _case(
        _service("a", "exit 5"),
        commands="until grep -q service-ended $PAI_LOG_DIR/events.jsonl; do sleep 0.1; done; echo command",
        logs="command\n",
        report={"reason": contract.SUCCEEDED, "exit_code": 0},
        prints=("^kedge: worker:0: the service a ended with exit code 5; the task goes on without it",),
    ),
    "what a service prints is not the cause of the command's failure": _case(
        _service("a", "echo 'RuntimeError: CUDA out of memory.'; touch $PAI_LOG_DIR/a; sleep 100"),
        commands="until [ -e $PAI_LOG_DIR/a ]; do sleep 0.1; done; exit 7",
        code=EXIT_FAILED,
        logs="",
        prints=("^Root cause  worker:0   not recognised: the command exited with code 7",),
    ),
    "variables that a hook exports reach the command": _case(
        _hook("a", {TASK_STARTS: "export FROM_HOOK='a b'"}), commands='echo "$FROM_HOOK"', logs="a b\n"
    ),
}  # fmt: skip
