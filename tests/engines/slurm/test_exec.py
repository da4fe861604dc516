"""`kedge exec` beside a task: a step on the task's node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.engines.base import ExecRequest, Task, TaskAttempt
from kedge.engines.slurm import exec as slurm_exec
from kedge.errors import CannotRun
from kedge.jobs import submission
from kedge.jobs.submission import Submitted
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

_ATTEMPT = TaskAttempt(Task("worker", 1), 0, 0)
_SRUN = """#!/bin/sh
echo "$@" > {folder}/srun
echo "from the program" >&2
echo "srun: error: n2: task 0: Exited with exit code 7" >&2
exit 7
"""
# srun and the program, and a Slurm that knows its step if `listed` is there
_SIGNALLED = """#!/bin/sh
trap 'echo "srun was ended"; exit 1' TERM
trap 'exit 9' USR1
echo $$ > {folder}/pid
echo "$@" > {folder}/srun
echo started
while :; do sleep 0.02; done
"""
_SQUEUE = """#!/bin/sh
[ ! -e {folder}/silent ] || {{ echo "squeue: error: Unable to contact slurm controller" >&2; exit 1; }}
echo "1.0 worker"
[ ! -e {folder}/listed ] || [ ! -e {folder}/srun ] || sed "s/.*--job-name=\\([^ ]*\\).*/1.4 \\1/" {folder}/srun
"""
_SCANCEL = """#!/bin/sh
echo "$@" > {folder}/scancel
kill -USR1 $(cat {folder}/pid)
"""


@pytest.fixture
def running(submitted: Submitted, slurm: Path, controller: Callable[[str], None]) -> Run:
    """A run with a task on node n2, whose supervisor has the pid 4711."""
    (slurm / "hold").write_text("None")
    submission.start(submitted)
    run = submitted.run
    with EventLog(run.events) as log:
        log.append(JobEvent.TASK_PLACED, role="worker", index=1, node="n2", address="10.0.0.2")
    folder = run.task("worker", 1, 0)
    folder.mkdir(parents=True)
    with EventLog(folder / "events.jsonl") as log:
        log.append("starting", pid=4711, start_time=1)
    srun = slurm / "bin" / "srun"
    srun.write_text(_SRUN.format(folder=slurm))
    srun.chmod(0o755)
    return run


def start(run: Run) -> subprocess.Popen[str]:
    """`kedge exec` with the program `ls -l`, in a process of its own."""
    code = f"""
import sys
from pathlib import Path
from kedge.engines.slurm import exec
from kedge.engines.base import *
run = exec.Run(Path({str(run.path)!r}))
sys.exit(exec.run(run, TaskAttempt(Task("worker", 1), 0, 0), ExecRequest(("ls", "-l"))))
"""
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def terminated(run: Run, slurm: Path, *, silent: bool = False) -> tuple[int, str, str]:
    """The exit code and output of `kedge exec` that gets SIGTERM when the program has started, and Slurm is `silent`
    from then on."""
    for name, script in (("srun", _SIGNALLED), ("squeue", _SQUEUE), ("scancel", _SCANCEL)):
        (slurm / "bin" / name).write_text(script.format(folder=slurm))
        (slurm / "bin" / name).chmod(0o755)
    process = start(run)
    assert process.stdout
    assert process.stdout.readline() == "started\n"
    if silent:
        (slurm / "silent").touch()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


def test_it_is_a_step_on_the_node_of_the_task(running: Run, slurm: Path, tmp_path: Path) -> None:
    done = start(running)
    _, err = done.communicate(timeout=20)
    assert done.returncode == 7
    assert err == "from the program\n", "srun's own line about the exit code is not the program's"
    argv = (slurm / "srun").read_text().split()
    assert {"--jobid=1", "--overlap", "--nodelist=n2", "--input=none"} <= set(argv)
    assert argv[-5:] == [f"{tmp_path}/bundle/runtime", "--join", "4711", "ls", "-l"]


def test_the_program_has_the_users_own_language(running: Run, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    srun_that(slurm, "printenv LC_ALL SLURM_TIME_FORMAT")
    assert start(running).communicate(timeout=20)[0] == "de_DE.UTF-8\n"


def test_a_signal_is_for_the_program_not_for_srun(running: Run, slurm: Path) -> None:
    (slurm / "listed").touch()
    assert terminated(running, slurm) == (9, "", "")
    assert (slurm / "scancel").read_text() == "--signal=15 1.4\n"


def test_a_signal_before_there_is_a_step_ends_srun(running: Run, slurm: Path) -> None:
    assert terminated(running, slurm) == (1, "srun was ended\n", "")


def test_a_signal_ends_the_program_if_slurm_is_silent(running: Run, slurm: Path) -> None:
    code, out, err = terminated(running, slurm, silent=True)
    assert (code, out) == (1, "srun was ended\n")
    assert err.startswith(
        "kedge exec: Slurm cannot deliver the signal, so the program is ended: squeue: Unable to contact"
    )


def srun_that(slurm: Path, script: str) -> None:
    (slurm / "bin" / "srun").write_text(f"#!/bin/sh\n{script}\n")


def test_a_silent_slurm_is_not_left_to_srun(running: Run, slurm: Path) -> None:
    """srun would try for minutes, in silence, and end with 1, which may be an exit code of the program."""
    (slurm / "bin" / "squeue").write_text(_SQUEUE.format(folder=slurm))
    (slurm / "silent").touch()
    srun_that(slurm, f"touch {slurm}/started")
    with pytest.raises(CannotRun, match="has not started the program beside worker:1: squeue: Unable to contact"):
        slurm_exec.run(running, _ATTEMPT, ExecRequest(("ls",)))
    assert not (slurm / "started").exists()


@pytest.mark.parametrize(
    "words",
    [
        "Unable to create step for job 1: Job/step already completing or completed",
        "Unable to confirm allocation for job 1: Unable to contact slurm controller (connect failure)",
        "Task launch for StepId=1.7 failed on node n2: Communication connection failure",
    ],
)
def test_what_srun_cannot_start_has_no_exit_code(
    running: Run, slurm: Path, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    srun_that(slurm, f"echo 'srun: error: {words}' >&2; exit 1")
    with pytest.raises(CannotRun) as caught:
        slurm_exec.run(running, _ATTEMPT, ExecRequest(("ls",)))
    assert str(caught.value) == f"Slurm has not started the program beside worker:1: {words}; try again"
    assert capfd.readouterr().err == ""


def test_a_program_may_fail_to_start_jobs_of_its_own(
    running: Run, slurm: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = "srun: error: Unable to create step for job 17: Job/step already completing or completed"
    srun_that(slurm, f"echo '{words}' >&2; exit 1")
    assert slurm_exec.run(running, _ATTEMPT, ExecRequest(("ls",))) == 1
    assert capfd.readouterr().err == f"{words}\n"


def test_srun_has_a_deadline_for_the_start(running: Run, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_exec, "_START_SEC", 0.1)
    monkeypatch.setattr(slurm_exec, "_LOOK_SEC", 0.05)
    srun_that(slurm, f"echo $$ > {slurm}/pid; exec sleep 1000")
    with pytest.raises(CannotRun, match=r"srun did not start it within 0.1 s; try again"):
        slurm_exec.run(running, _ATTEMPT, ExecRequest(("ls",)))
    assert not os.path.exists(f"/proc/{(slurm / 'pid').read_text().strip()}")


def test_the_job_of_another_user(running: Run, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(CannotRun, match="and Slurm lets nobody else run a program beside its tasks; run kedge exec as"):
        slurm_exec.run(running, TaskAttempt(Task("worker", 1), 0, 0), ExecRequest(("ls",)))


def test_a_task_that_has_ended_is_not_joined(running: Run) -> None:
    with EventLog(running.task("worker", 1, 0) / "events.jsonl") as log:
        log.append("finished", pid=4711)
    with pytest.raises(CannotRun, match="worker:1 is not running"):
        slurm_exec.run(running, _ATTEMPT, ExecRequest(("ls",)))


def test_a_task_without_a_node_is_not_joined(running: Run) -> None:
    with pytest.raises(CannotRun, match="worker:0 has no node yet"):
        slurm_exec.run(running, TaskAttempt(Task("worker", 0), 0, 0), ExecRequest(("ls",)))


@pytest.mark.parametrize(("finished", "code"), [(True, 137), (False, 143)])
def test_a_program_that_slurm_ends_with_the_job(running: Run, slurm: Path, finished: bool, code: int) -> None:
    """By SIGTERM, perhaps before anybody has looked at whether the task has ended."""
    log = running.task("worker", 1, 0) / "events.jsonl"
    event = '{"time": "2026-11-24T04:45:46.713287177Z", "event": "finished"}'
    says = f"echo '{event}' >>'{log}'" if finished else "true"
    (slurm / "bin" / "srun").write_text(f"#!/bin/sh\n{says}\nexit 143\n")
    process = start(running)
    process.communicate(timeout=60)
    assert process.returncode == code
