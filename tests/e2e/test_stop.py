"""Ctrl-C, kill -9, and everything else that ends a job from outside: nothing is left running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from kedge.engines.local import lost
from kedge.runs.folder import Run
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge, processes_of

STUBBORN = "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=TIMEOUT)
    assert "Traceback" not in err
    return process.returncode, out + err


def nothing_is_left(kedge: Kedge) -> bool:
    return not processes_of(str(kedge.folder))


def test_ctrl_c_stops_every_task_in_an_orderly_way(kedge: Kedge) -> None:
    job = kedge.job("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    process.send_signal(signal.SIGINT)
    code, said = finish(process)
    assert code == 130
    assert "worker:0 | saved" in said
    assert "Stopped" in said
    assert "stopped by Ctrl-C" in said
    assert nothing_is_left(kedge)


def test_ctrl_c_while_kedge_is_loaded_shows_no_traceback(kedge: Kedge) -> None:
    program = """
import os, signal, sys, types
signal.signal(signal.SIGINT, signal.default_int_handler)
find = lambda name, *_: os.kill(os.getpid(), signal.SIGINT) if name == "click" else None
sys.meta_path.insert(0, types.SimpleNamespace(find_spec=find))
from kedge.__main__ import main
main()"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_twice_kills_what_does_not_listen(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(STUBBORN, roles={"worker": {"instances": 2}}))
    kedge.wait_for_output("ready", "worker-0")
    kedge.wait_for_output("ready", "worker-1")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "stop-requested" in [e["event"] for e in kedge.events()], TIMEOUT)
    process.send_signal(signal.SIGINT)
    code, said = finish(process)
    assert code == 130
    assert len(re.findall(r"^worker:\d +stopped +1 +137", said, re.MULTILINE)) == 2
    assert nothing_is_left(kedge)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_while_the_code_is_copied_leaves_nothing(kedge: Kedge, number: signal.Signals) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    for index in range(10_000):
        (code / str(index)).touch()
    process = kedge.start("run", kedge.job("true"), "--workdir", code)
    wait_until(lambda: list(kedge.jobs.glob("*/code/.workdir.new")), TIMEOUT)
    process.send_signal(number)
    assert finish(process)[0] == 130
    assert kedge.runs() == []


@pytest.mark.parametrize("asked_before", [False, True])
def test_stop_kill_does_not_wait_for_the_grace_period(kedge: Kedge, asked_before: bool) -> None:
    job = kedge.job(STUBBORN, roles={"worker": {"instances": 3}}, extras={"kedge": {"stop": {"graceSec": 1000}}})
    run = kedge("run", "-d", job).stdout.strip()
    for index in range(3):
        kedge.wait_for_output("ready", f"worker-{index}")
    if asked_before:
        kedge("stop", "--no-wait", run)
    assert kedge("stop", "--kill", run).stdout == f"{run} stopped\n"
    said = json.loads(kedge("show", run, "--json").stdout)
    assert [task["exit_code"] for task in said["tasks"]] == [137] * 3  # so the supervisors have lived to say so
    assert nothing_is_left(kedge)


def test_the_grace_period_ends_with_a_kill(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(STUBBORN, extras={"kedge": {"stop": {"signal": "INT", "graceSec": 0.5}}}))
    kedge.wait_for_output("ready")
    process.send_signal(signal.SIGTERM)
    code, said = finish(process)
    assert code == 1
    assert "stopped by a stop request" in said
    report = json.loads((kedge.only_run() / "attempt-0" / "worker-0" / "report.json").read_text())
    assert report["killed"] is True
    assert nothing_is_left(kedge)


def test_processes_that_hide_in_other_sessions_are_ended_too(kedge: Kedge) -> None:
    hidden = f"setsid sh -c 'trap \"\" TERM HUP; echo {kedge.folder} >/dev/null; sleep 1000' &"
    job = kedge.job([hidden, "(setsid nohup sh -c 'sleep 1001' >/dev/null 2>&1 &)", "echo ready; sleep 1000"])
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    run = kedge.only_run().name
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    assert nothing_is_left(kedge)
    assert processes_with_job_id(run) == []


def test_background_processes_end_with_their_task(kedge: Kedge) -> None:
    kedge("run", kedge.job("setsid sleep 1000 & echo done"))
    assert processes_with_job_id(kedge.only_run().name) == []


def test_a_killed_supervisor_is_reported_and_its_tree_ended(kedge: Kedge) -> None:
    job = kedge.job("setsid sleep 1000 & echo ready; sleep 1000", extras={"kedge": {"retry": {"maxTransient": 0}}})
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    events = (kedge.only_run() / "attempt-0" / "worker-0" / "events.jsonl").read_text().splitlines()
    os.kill(json.loads(events[0])["pid"], signal.SIGKILL)
    code, said = finish(process)
    assert code == 1
    assert "supervisor was killed by SIGKILL" in said
    assert processes_with_job_id(kedge.only_run().name) == []


def test_a_killed_controller_leaves_a_lost_job_that_stop_cleans_up(kedge: Kedge) -> None:
    job = kedge.job(
        "echo <% $secrets.token %> ready; setsid sleep 1000 & sleep 1000", secrets={"token": "a secret value"}
    )
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    process.kill()
    process.wait()
    run = kedge.only_run()
    assert re.search(rf"^{run.name} +lost ", kedge("ps").stdout, re.MULTILINE)
    assert f"kedge stop {run.name}" in kedge("show", "job").stdout
    assert processes_with_job_id(run.name)
    assert "stopped" in kedge("stop", "job").stdout
    assert processes_with_job_id(run.name) == []
    assert not os.path.exists(json.loads((run / "run.json").read_text())["secrets_dir"])
    assert re.search(rf"^{run.name} +stopped ", kedge("ps").stdout, re.MULTILINE)
    kedge("rm", "job")
    assert kedge.runs() == []


def test_tasks_of_a_lost_job_have_its_grace_period(kedge: Kedge, monkeypatch: pytest.MonkeyPatch) -> None:
    job = kedge.job("trap 'sleep 1; echo saved; exit' TERM; echo ready; while :; do sleep 0.1; done")
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    process.kill()
    process.wait()
    monkeypatch.setattr(lost, "PATIENCE_SEC", 0.0)
    lost.clean_up(Run(kedge.only_run()), kill=False)
    assert "saved" in kedge.said()
    assert nothing_is_left(kedge)


def test_a_stranger_who_kills_a_task_causes_a_transient_retry(kedge: Kedge) -> None:
    job = kedge.job("echo ready; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] || sleep 1000")
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    log = (kedge.only_run() / "attempt-0" / "worker-0" / "events.jsonl").read_text()
    (running,) = [e for e in map(json.loads, log.splitlines()) if e["event"] == "running"]
    os.killpg(running["pid"], signal.SIGKILL)
    code, said = finish(process)
    assert code == 0
    assert "transient failure" in said
    assert "attempt 2" in said


def test_a_task_that_ends_its_own_supervisor_was_not_stopped_by_kedge(kedge: Kedge) -> None:
    job = kedge.job("kill -TERM $PPID; sleep 1000", extras={"kedge": {"retry": {"maxTransient": 0}}})
    done = kedge("run", job, code=1)
    assert "sigterm_unattributed" in done.stdout


@pytest.mark.parametrize("stop", [("stop",), ("stop", "--kill")])
def test_stop_ends_a_detached_job(kedge: Kedge, stop: tuple[str, ...]) -> None:
    name = kedge("run", "--detach", kedge.job("echo ready; sleep 1000")).stdout.strip()
    kedge.wait_for_output("ready")
    assert kedge(*stop, name).stdout == f"{name} stopped\n"
    assert "has ended already" in kedge("stop", name).stdout
    assert kedge("wait", name, code=1).stdout == "stopped: stopped by a stop request\n"
    assert processes_with_job_id(name) == []


def test_a_closed_terminal_stops_the_job(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("echo ready; sleep 1000"))
    kedge.wait_for_output("ready")
    process.send_signal(signal.SIGHUP)
    code, said = finish(process)
    assert code == 1
    assert "terminal" in said
    assert nothing_is_left(kedge)


def processes_with_job_id(run: str) -> list[int]:
    """The processes whose environment names the run."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"KEDGE_JOB_ID={run}".encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found
