"""The controller of a run is a separate process: what others can see of it, what ends it, and what it outlives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kedge import processes
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge, report

SECRET = "hunter2-and-more"
WAITS = "echo ready; until [ -e ../../../go ]; do sleep 0.05; done"


def wait_for_controller(kedge: Kedge) -> int:
    wait_until(lambda: [e for e in kedge.events() if e["event"] == "attempt-started"], TIMEOUT)
    return kedge.controller()


def let_go(kedge: Kedge) -> None:
    (kedge.only_run() / "go").touch()


def shown(pid: int) -> bytes:
    """What other users can see of a process: its command line and environment. Empty when it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
    return b""


@pytest.mark.parametrize(
    ("detach", "given"), [((), "token=env:TOKEN"), (("-d",), f"token={SECRET}")], ids=["variable", "value"]
)
def test_no_process_of_a_job_shows_a_secret(kedge: Kedge, detach: tuple[str, ...], given: str) -> None:
    kedge.environment["TOKEN"] = SECRET if given.endswith("env:TOKEN") else ""
    job = kedge.job(f"env; echo <% $secrets.token %> | tr 2 _; {WAITS}", secrets={"token": "x"})
    process = kedge.start("run", *detach, job, "--secret", given)
    kedge.wait_for_output("ready")
    run = kedge.only_run()
    started = {process.pid for process in processes.of_job(run.name)}
    assert len(started) > 1
    for pid in {kedge.controller(), *started}:
        assert SECRET.encode() not in shown(pid)
        assert b"TOKEN=" + SECRET.encode() not in shown(pid)
    assert str(run).encode() in shown(kedge.controller())
    let_go(kedge)
    kedge.finish(process, 0)
    kedge("wait", "job")
    assert "hunter_-and-more" in kedge.task_log()
    assert "TOKEN=**" not in kedge.task_log()
    assert not [file for file in run.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]


def test_only_the_command_of_a_task_sees_a_variable_that_was_taken_from_the_shell(kedge: Kedge) -> None:
    """Also when the job is run again. What kedge itself needs stays."""
    kedge.environment |= {"TOKEN": SECRET, "http_proxy": "http://proxy"}
    job = kedge.job(f"echo $TOKEN | tr 2 _; {WAITS}")
    for words in (("run", job, "--env", "TOKEN", "--env", "http_proxy"), ("rerun", "job")):
        name = kedge(*words, "-d").stdout.strip()
        run = kedge.jobs / name
        wait_until(lambda name=name: "ready" in kedge("logs", name).stdout, TIMEOUT)  # type: ignore[misc]
        controller = int(json.loads((run / "lock").read_bytes())["pid"])
        started = {process.pid for process in processes.of_job(name)}
        supervisors = {pid for pid in started if b"kedge/runtime" in shown(pid).split(b"\0PATH=")[0]}
        assert supervisors
        for pid in {controller, *supervisors}:
            assert SECRET.encode() not in shown(pid)
            assert b"http_proxy=http://proxy" in shown(pid)
        (run / "go").touch()
        kedge("wait", name)
        assert "hunter_-and-more" in kedge("logs", name).stdout


def test_a_controller_loads_its_modules_while_the_job_is_prepared(kedge: Kedge) -> None:
    assert kedge("run", "-q", kedge.job("true")).returncode == 0
    run = kedge.only_run()
    try:
        os.close(os.open(run.parent, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no unnamed files")
    with subprocess.Popen(kedge.argv(["run", "-"]), env=kedge.environment, stdin=subprocess.PIPE) as process:
        loading = wait_until(
            lambda: [p for p in processes.descendants(process.pid) if b"kedge/controller" in shown(p.pid)], TIMEOUT
        )
    assert process.returncode == 2  # stdin is empty, which is no job
    assert kedge.only_run() == run
    wait_until(lambda: not any(map(processes.is_alive, loading)), TIMEOUT)


def test_the_job_continues_when_kedge_run_is_killed(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job(f"{WAITS}; echo bye"))
    kedge.wait_for_output("ready")
    process.kill()
    process.communicate()
    let_go(kedge)
    assert kedge("wait", "job").stdout == "succeeded\n"
    assert kedge.task_log() == "ready\nbye\n"
    assert report(kedge)["state"] == "succeeded"


def test_kedge_run_reports_that_the_controller_is_gone(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("echo ready; sleep 1000"))
    kedge.wait_for_output("ready")
    kedge.lose_controller()
    said = kedge.finish(process, 1)
    assert f"the job's controller is gone; end the rest of the run with kedge stop {kedge.only_run().name}" in said
    assert "Lost: its controller is gone" in said


def test_stop_requests_after_the_end_change_nothing(kedge: Kedge) -> None:
    """After job-completed, the controller and kedge run get such signals until they have ended."""
    process = kedge.start("run", kedge.job(WAITS))
    kedge.wait_for_output("ready")
    controller = processes.identify(kedge.controller())
    assert controller
    let_go(kedge)
    wait_until(lambda: [e for e in kedge.events() if e["event"] == "job-completed"], TIMEOUT)
    while processes.is_alive(controller) or process.poll() is None:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
            processes.send(controller, number)
            process.send_signal(number)
    kedge.finish(process, 0)
    assert report(kedge)["state"] == "succeeded"
    assert [e["event"] for e in kedge.events()].count("job-completed") == 1


# Submits a job, does something to it, lets it start, and prints how it ended.
MEANWHILE = """
import os, signal, sys
from kedge.engines.registry import make
from kedge.jobs import preparation, submission
from kedge.resolve.model import Inputs
submitted = submission.submit(preparation.prepare(sys.argv[1], Inputs("me")), make("local"))
run, controller = submitted.run, submitted.controller
{what}
submission.start(submitted)
print(*(controller.wait() or "?"), sep="; ")
"""


def meanwhile(kedge: Kedge, what: str, job: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MEANWHILE.replace("{what}", what), str(job)],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 1), ("SIGINT", 130)])
def test_a_stop_before_the_controller_is_ready_counts(kedge: Kedge, number: str, code: int) -> None:
    what = f"os.kill(submission.controller_lock.owner(run.lock).pid, signal.{number})"
    assert meanwhile(kedge, what, kedge.job("touch ../../../ran")) == f"{code};"
    assert not (kedge.only_run() / "ran").exists()
    assert kedge("wait", "job", code=1).stdout.startswith("stopped by ")
    assert report(kedge)["state"] == "stopped"


def test_a_bug_in_the_controller_is_reported_and_its_traceback_kept(kedge: Kedge) -> None:
    what = "controller.order('local', {}, {}, submitted.prepared.secrets)"  # without a plan
    assert meanwhile(kedge, what, kedge.job("true")) == "3; KeyError('user')"
    assert "Traceback" in (kedge.only_run() / "controller.log").read_text()


def test_a_killed_submission_leaves_nothing(kedge: Kedge) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    (code / "file").touch()
    program = """
import os, signal, sys
def audit(event, args):
    if event == "open" and ".workdir.new/file" in str(args[0]): os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(audit)
from kedge.__main__ import main
main()"""
    done = subprocess.run(
        [sys.executable, "-c", program, "run", kedge.job("true"), "--workdir", code],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not kedge.runs(), TIMEOUT)


def suspend(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: processes.is_suspended(pid), TIMEOUT)


def test_a_kill_works_on_a_job_that_is_fully_suspended(kedge: Kedge) -> None:
    process = kedge.start("run", kedge.job("trap '' TERM; sleep 1000 & echo ready; wait"))
    kedge.wait_for_output("ready")
    for found in [*processes.of_job(kedge.only_run().name), processes.identify(kedge.controller())]:
        assert found
        suspend(found.pid)
    assert kedge("stop", "--kill", "job").stdout.endswith(" stopped\n")
    kedge.finish(process, 1)
    assert kedge.leftovers() == []
