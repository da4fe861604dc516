"""Ends from outside that only processes of this machine know; the others are in the conformance kit."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys

import pytest

from kedge import processes
from kedge.engines.local import leftovers
from kedge.runs import events
from kedge.runs.folder import Run
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge

# kedge that gets a signal when it opens the first file of a copy of the code.
WHILE_COPYING = """
import os, sys
def audit(event, args):
    if event == "open" and ".workdir.new/first" in str(args[0]): os.kill(os.getpid(), NUMBER)
sys.addaudithook(audit)
from kedge.__main__ import main
main()"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_while_the_code_is_copied_leaves_nothing(kedge: Kedge, number: signal.Signals) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    for name in ("first", "second"):
        (code / name).touch()
    text = WHILE_COPYING.replace("NUMBER", str(int(number)))
    done = program(kedge, text, "run", str(kedge.job("true")), "--workdir", str(code))
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert kedge.runs() == []


def program(kedge: Kedge, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program where kedge would run."""
    return subprocess.run(
        [sys.executable, "-c", text, *args],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip


def test_a_killed_supervisor_is_reported_and_its_tree_ended(kedge: Kedge) -> None:
    job = kedge.job("setsid sleep 1000 & echo ready; sleep 1000", extras={"kedge": {"retry": {"maxTransient": 0}}})
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    events = (kedge.only_run() / "attempt-0" / "worker-0" / "events.jsonl").read_text().splitlines()
    os.kill(json.loads(events[0])["pid"], signal.SIGKILL)
    assert "supervisor was killed by SIGKILL" in kedge.finish(process, 1)
    assert kedge.leftovers() == []


def test_ctrl_c_while_kedge_is_loaded_shows_no_traceback(kedge: Kedge) -> None:
    text = """
import os, signal, sys, types
signal.signal(signal.SIGINT, signal.default_int_handler)
find = lambda name, *_: os.kill(os.getpid(), signal.SIGINT) if name == "click" else None
sys.meta_path.insert(0, types.SimpleNamespace(find_spec=find))
from kedge.__main__ import main
main()"""
    done = program(kedge, text)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_tasks_of_a_lost_job_have_its_grace_period(kedge: Kedge, monkeypatch: pytest.MonkeyPatch) -> None:
    job = kedge.job("trap 'sleep 1; echo saved; exit' TERM; echo ready; while :; do sleep 0.1; done")
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    kedge.lose_controller()
    process.communicate()
    monkeypatch.setattr(leftovers, "PATIENCE_SEC", 0.0)
    leftovers.end(Run(kedge.only_run()), kill=False)
    assert "saved" in kedge.task_log()


# Calls a function of kedge.jobs.runs for a run in so many processes at once, and prints how they ended.
AT_ONCE = """
import os, sys
from pathlib import Path
from kedge.jobs import runs
from kedge.runs.folder import Run
run, count, calls = Run(Path(sys.argv[1])), int(sys.argv[2]), sys.argv[3:]
ready, go = os.pipe()
for number in range(count):
    if os.fork() == 0:
        os.close(go)
        os.read(ready, 1)
        name, *args = calls[number % len(calls)].split()
        getattr(runs, name)(run, *map(bool, args))
        os._exit(0)
os.close(go)
print(sorted(os.waitpid(-1, 0)[1] for _ in range(count)))
"""


def at_once(kedge: Kedge, count: int, *calls: str) -> None:
    done = program(kedge, AT_ONCE, str(kedge.only_run()), str(count), *calls)
    assert (done.stdout.strip(), done.stderr) == (str([0] * count), "")


def lost_run(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("setsid sleep 1000 & echo ready; sleep 1000"))
    kedge.wait_for_output("ready")
    kedge.lose_controller()
    process.communicate()


@pytest.mark.parametrize("calls", [("stop",), ("stop", "stop True")])
def test_twenty_stops_of_a_lost_run_at_once_end_it_once(kedge: Kedge, calls: tuple[str, ...]) -> None:
    lost_run(kedge)
    at_once(kedge, 20, *calls)
    assert [event["event"] for event in kedge.events()].count("job-completed") == 1
    assert kedge.leftovers() == []


def test_twenty_removals_of_a_lost_run_at_once_remove_it(kedge: Kedge) -> None:
    lost_run(kedge)
    run = kedge.only_run().name
    at_once(kedge, 20, "remove")
    assert kedge.runs() == []
    assert processes.of_job(run) == []


def test_a_stop_of_a_run_that_has_ended_changes_nothing(kedge: Kedge) -> None:
    kedge("run", "-q", kedge.job("true"))
    before = (kedge.only_run() / "events.jsonl").read_bytes()
    at_once(kedge, 4, "stop", "stop True")
    assert (kedge.only_run() / "events.jsonl").read_bytes() == before


def test_whoever_kills_does_not_wait_for_the_grace_that_another_gives(kedge: Kedge) -> None:
    stop = {"kedge": {"stop": {"graceSec": 1000}}}
    process = kedge.start("run", kedge.job("trap '' TERM; echo ready; while :; do sleep 0.1; done", extras=stop))
    kedge.wait_for_output("ready")
    kedge.lose_controller()
    process.communicate()
    patient = kedge.start("stop", "job")
    wait_until(lambda: events.is_written(kedge.only_run() / "events.jsonl"), TIMEOUT)
    assert kedge("stop", "--kill", "job").stdout.endswith(" stopped\n")
    assert kedge.finish(patient, 0).endswith(" stopped\n")
    assert kedge.leftovers() == []


def test_a_stranger_who_kills_a_task_causes_a_transient_retry(kedge: Kedge) -> None:
    job = kedge.job("echo ready; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] || sleep 1000")
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    log = (kedge.only_run() / "attempt-0" / "worker-0" / "events.jsonl").read_text()
    (running,) = [e for e in map(json.loads, log.splitlines()) if e["event"] == "running"]
    os.killpg(running["pid"], signal.SIGKILL)
    said = kedge.finish(process, 0)
    assert "code 137, ContainerSigKillReceived, is transient" in said
    assert "attempt 2" in said


ORDERLY = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
_PTRACE_ATTACH = 16


def suspend(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: processes.is_suspended(pid), TIMEOUT)


def pid_of(kedge: Kedge, task: str, event: str) -> int:
    """The pid that the supervisor of a task has said with an event."""
    lines = (kedge.task(task) / "events.jsonl").read_text().splitlines()
    return next(int(e["pid"]) for e in map(json.loads, lines) if e["event"] == event)


def test_what_is_suspended_goes_on_to_be_stopped(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(ORDERLY, roles={"worker": {"instances": 2}}))
    for task in ("worker-0", "worker-1"):
        kedge.wait_for_output("ready", task)
    suspend(pid_of(kedge, "worker-0", "starting"))
    suspend(pid_of(kedge, "worker-1", "running"))
    controller = kedge.controller()
    suspend(controller)
    done = kedge("stop", "job")
    assert f"controller (pid {controller}) was suspended; it was resumed" in done.stderr
    kedge.finish(process, 1)
    for task in ("worker-0", "worker-1"):
        assert "saved" in kedge.task_log(task)
        assert not json.loads((kedge.task(task) / "report.json").read_text())["killed"]


def test_a_controller_that_cannot_go_on_is_killed_and_its_work_taken_over(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(ORDERLY))
    kedge.wait_for_output("ready")
    controller = kedge.controller()
    if ctypes.CDLL(None).ptrace(_PTRACE_ATTACH, controller, None, None):
        pytest.skip("this user cannot trace processes here")
    wait_until(lambda: processes.is_suspended(controller), TIMEOUT)
    assert "a debugger may hold it" in kedge("stop", "job", "--no-wait").stderr
    done = kedge("stop", "--kill", "job")
    assert "it was killed" in done.stderr
    assert done.stdout.endswith(" stopped\n")
    assert [event["event"] for event in kedge.events()].count("job-completed") == 1
    assert kedge.leftovers() == []
    kedge.finish(process, 1)


def test_whoever_waits_for_a_stop_hears_for_what(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("trap '' TERM; echo ready; while :; do sleep 0.1; done"))
    kedge.wait_for_output("ready")
    stop = kedge.start("stop", "job")
    assert stop.stderr is not None
    assert "waiting for worker:0: the grace period is 30 s" in stop.stderr.readline()
    kedge("stop", "--kill", "job")
    kedge.finish(stop, 0)
    kedge.finish(process, 1)
