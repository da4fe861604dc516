"""Stops: every way to stop a job ends all of its processes, gracefully first."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from functools import partial

from kedge.contract import BEFORE_STOP, REPORT_FILE, RUNTIME_LOG
from kedge.errors import EXIT_FAILED, EXIT_INTERRUPTED
from kedge.runs.job_events import JobEvent
from kedge.testing.command import TIMEOUT, Kedge
from kedge.testing.conformance.case import no_secrets, runtime_log, same
from kedge.testing.wait import wait_until

_GRACEFUL = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
_STUBBORN = "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"


def _hooks(kedge: Kedge) -> list[str]:
    """What the hook of the only task has printed so far, among other lines."""
    return runtime_log(kedge) if (kedge.task() / RUNTIME_LOG).exists() else []


def ctrl_c(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(_GRACEFUL, roles={"worker": {"instances": 2}}))
    for task in ("worker-0", "worker-1"):
        kedge.wait_for_output("ready", task)
    process.send_signal(signal.SIGINT)
    printed = kedge.finish(process, EXIT_INTERRUPTED)
    assert "by Ctrl-C" in printed, printed
    same("saved", ["saved" in kedge.task_log(task) for task in ("worker-0", "worker-1")], [True, True])
    assert kedge.leftovers() == []


def ctrl_c_twice(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(_STUBBORN, roles={"worker": {"instances": 2}}))
    for task in ("worker-0", "worker-1"):
        kedge.wait_for_output("ready", task)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: JobEvent.STOP_REQUESTED in [event["event"] for event in kedge.events()], TIMEOUT)
    process.send_signal(signal.SIGINT)
    printed = kedge.finish(process, EXIT_INTERRUPTED)
    same("killed tasks", len(re.findall(r"^worker:\d +stopped +1 +137", printed, re.MULTILINE)), 2)
    assert kedge.leftovers() == []


def grace_period(kedge: Kedge) -> None:
    stop = {"kedge": {"stop": {"signal": "INT", "graceSec": 0.5}}}
    process = kedge.start("run", kedge.job(_STUBBORN, extras=stop))
    kedge.wait_for_output("ready")
    process.send_signal(signal.SIGTERM)
    assert "by a stop request" in kedge.finish(process, EXIT_FAILED)
    report = json.loads((kedge.task() / REPORT_FILE).read_text())
    same("report", (report["killed"], report["user_exit_code"]), (True, 137))
    assert kedge.leftovers() == []


def stop_by_role(kedge: Kedge) -> None:
    worker = (
        "trap 'echo worker got it' TERM USR1; echo ready; while [ ! -e $KEDGE_OUTPUT_DIR/over ]; do sleep 0.1; done"
    )
    launcher = f"trap 'touch $KEDGE_OUTPUT_DIR/over; echo launcher got it' USR1; ({worker}) & wait || wait"
    settings = {
        "stop": {"signal": "USR1", "graceSec": 1000},
        "taskRoles": {
            "launcher": {"stop": {"target": "command"}},
            "stubborn": {"stop": {"signal": "TERM", "graceSec": "0.5s"}},
        },
    }
    roles = {
        "launcher": {"commands": [launcher]},
        "stubborn": {"commands": [_STUBBORN]},
        "worker": {"commands": [_GRACEFUL.replace("TERM", "USR1")]},
    }
    process = kedge.start("run", kedge.job("", roles=roles, extras={"kedge": settings}))
    for role in roles:
        kedge.wait_for_output("ready", f"{role}-0")
    process.send_signal(signal.SIGINT)
    kedge.finish(process, EXIT_INTERRUPTED)
    log = kedge.task_log("launcher-0")
    same("target: command", ("launcher got it" in log, "worker got it" in log), (True, False))
    assert "saved" in kedge.task_log("worker-0"), "the job's signal"
    reports = {role: json.loads((kedge.task(f"{role}-0") / REPORT_FILE).read_text())["killed"] for role in roles}
    same("killed", reports, {"launcher": False, "stubborn": True, "worker": False})
    assert kedge.leftovers() == []


def closed_terminal(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("echo ready; sleep 1000"))
    kedge.wait_for_output("ready")
    process.send_signal(signal.SIGHUP)
    assert "terminal" in kedge.finish(process, EXIT_FAILED)
    assert kedge.leftovers() == []


def hidden_processes(kedge: Kedge) -> None:
    hidden = ["setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &", "(setsid nohup sleep 1001 > /dev/null 2>&1 &)"]
    stop = {"kedge": {"stop": {"graceSec": 1}}}
    job = kedge.job([*hidden, "echo ready; sleep 1000"], extras=stop)
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    assert kedge.leftovers(), "the test cannot find the processes of a running job"
    process.send_signal(signal.SIGINT)
    kedge.finish(process, EXIT_INTERRUPTED)
    assert kedge.leftovers() == []


def stop_in_the_background(kedge: Kedge) -> None:
    name = kedge("run", "--detach", kedge.job("echo ready; sleep 1000")).stdout.strip()
    kedge.wait_for_output("ready")
    same("stop", kedge("stop", name).stdout, f"{name} stopped\n")
    assert "has already ended" in kedge("stop", name).stdout
    same("wait", kedge("wait", name, code=1).stdout, "stopped by a stop request\n")
    assert kedge.leftovers() == []


def stop_without_grace(kedge: Kedge, *, after_a_stop: bool) -> None:
    grace = {"kedge": {"stop": {"graceSec": 1000}}}
    name = kedge("run", "-d", kedge.job(_STUBBORN, extras=grace)).stdout.strip()
    kedge.wait_for_output("ready")
    if after_a_stop:
        kedge("stop", "--no-wait", name)
    same("stop", kedge("stop", "--kill", name).stdout, f"{name} stopped\n")
    shown = json.loads(kedge("show", name, "--json").stdout)
    same("codes", [task["exit_code"] for task in shown["tasks"]], [137])  # recorded by a supervisor that survived
    assert kedge.leftovers() == []


def stop_during_a_hook(kedge: Kedge) -> None:
    callbacks = [
        {"event": "taskStarts", "commands": ["echo begun", "sleep 1000"]},
        {"event": "containerExit", "commands": ["echo exit hook"]},
    ]
    hook = {"name": "hook", "type": "script", "plugin": "cmd", "callbacks": callbacks}
    job = kedge.job("echo command", roles={"worker": {"prerequisites": ["hook"]}}, prerequisites=[hook])
    process = kedge.start("run", job)
    wait_until(lambda: kedge.runs() and "begun" in _hooks(kedge), TIMEOUT, "the hook")
    process.send_signal(signal.SIGINT)
    kedge.finish(process, EXIT_INTERRUPTED)
    same("the command", kedge.task_log(), "")
    assert "exit hook" in _hooks(kedge), _hooks(kedge)
    assert kedge.leftovers() == []


def hook_before_stop(kedge: Kedge) -> None:
    save = "echo saved > $KEDGE_JOB_DIR/checkpoint; kill -USR1 $KEDGE_COMMAND_PID; echo hook $(cat $PAI_LOG_DIR/told)"
    hook = {
        "name": "save",
        "type": "script",
        "plugin": "cmd",
        "callbacks": [{"event": BEFORE_STOP, "commands": [save]}],
    }
    command = [
        "trap 'echo told; exit 0' TERM; trap 'echo asked to save' USR1; echo no signal yet > $PAI_LOG_DIR/told",
        "echo ready; while :; do sleep 0.1 || true; done",
    ]
    job = kedge.job(command, roles={"worker": {"prerequisites": ["save"]}}, prerequisites=[hook])
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    process.send_signal(signal.SIGINT)
    kedge.finish(process, EXIT_INTERRUPTED)
    log = kedge.task_log()
    assert -1 < log.find("asked to save") < log.find("told"), log
    assert "hook no signal yet" in runtime_log(kedge), runtime_log(kedge)
    assert kedge.leftovers() == []


def hook_before_stop_that_hangs(kedge: Kedge) -> None:
    callbacks = [{"event": BEFORE_STOP, "commands": ["echo begun; sleep 1000"]}]
    hook = {"name": "save", "type": "script", "plugin": "cmd", "callbacks": callbacks}
    stop = {"kedge": {"stop": {"graceSec": 1}}}
    roles = {"worker": {"prerequisites": ["save"]}}
    process = kedge.start("run", kedge.job(_GRACEFUL, roles=roles, prerequisites=[hook], extras=stop))
    kedge.wait_for_output("ready")
    process.send_signal(signal.SIGINT)
    kedge.finish(process, EXIT_INTERRUPTED)
    assert "begun" in _hooks(kedge), _hooks(kedge)
    report = json.loads((kedge.task() / REPORT_FILE).read_text())
    same("report", (report["killed"], report["user_exit_code"]), (True, 137))
    assert kedge.leftovers() == []


def lost_controller(kedge: Kedge) -> None:
    secret = {"token": "a secret value"}
    job = kedge.job("echo <% $secrets.token %> ready; setsid sleep 1000 & sleep 1000", secrets=secret)
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    kedge.lose_controller()
    process.communicate()
    run = kedge.only_run()
    assert re.search(rf"^{run.name} +lost ", kedge("ps").stdout, re.MULTILINE)
    assert f"kedge stop {run.name}" in kedge("show", "job").stdout
    assert kedge.leftovers(), "the tasks of a lost job are expected to continue"
    assert "stopped" in kedge("stop", "job").stdout
    assert kedge.leftovers() == []
    no_secrets(run)
    assert re.search(rf"^{run.name} +stopped ", kedge("ps").stdout, re.MULTILINE)
    kedge("rm", "job")
    same("runs", kedge.runs(), [])


BEHAVIOURS: dict[str, Callable[[Kedge], None]] = {
    "Ctrl-C lets every task end gracefully": ctrl_c,
    "a second Ctrl-C kills tasks that ignore the first": ctrl_c_twice,
    "the grace period ends with a kill": grace_period,
    "signal, target and grace period of a role": stop_by_role,
    "a closed terminal stops the job": closed_terminal,
    "processes in other sessions are ended, too": hidden_processes,
    "a job in the background is stopped": stop_in_the_background,
    "a stop without grace kills at once": partial(stop_without_grace, after_a_stop=False),
    "a stop without grace cuts the grace of an earlier stop": partial(stop_without_grace, after_a_stop=True),
    "a stop during a start hook": stop_during_a_hook,
    "a hook runs before the stop signal": hook_before_stop,
    "a hook before the stop that hangs ends with the grace period": hook_before_stop_that_hangs,
    "a job whose controller was killed": lost_controller,
}
