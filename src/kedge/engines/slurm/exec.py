"""Runs a program of `kedge exec` beside a task: as a step of its own, on the task's node, that shares its resources."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kedge.contract import EVENTS_FILE, FINISHED, STARTING
from kedge.engines.base import ExecRequest, TaskAttempt
from kedge.engines.machine import exec_terminal
from kedge.engines.slurm import commands, job_table
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.exec_signals import StepSignals
from kedge.engines.slurm.requests import user_name
from kedge.errors import CannotRun
from kedge.late_patterns import late_pattern
from kedge.own_files import write_all
from kedge.runs import events
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

_LOOK_SEC = 1.0  # between two looks at whether the task still runs
_LINGER_SEC = 10.0  # for srun to end
_START_SEC = 60.0  # for srun to start the program; it uses no resources of its own, so it need not wait for any
_BLOCK = 1 << 16
_TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
_EXIT = late_pattern(
    rb"(?m)^srun: error: [^ ]+: tasks? 0: (Exited with exit code|Terminated|Killed|Hangup|Interrupt|Quit)[^\n]*\n"
)
# srun's own failures, with the number of the job: a program may start jobs of its own.
_NOT_STARTED = late_pattern(
    rb"(?m)^srun: error: "
    rb"((?:Unable to (?:confirm allocation|create step) for job |Task launch for StepId=)([0-9]+)[^\n]*)"
)
_SIGNALLED = late_pattern(rb"(?m)^slurmstepd[^ ]*: error: \*\*\* STEP [^ ]+ ON [^ ]+ CANCELLED AT [^ ]+ \*\*\*\r?\n")


def run(run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
    """Run the program to its end and return its exit code. It is ended when the task ends. CannotRun: the task is not
    running, or Slurm does not start the program."""
    job = run.cluster.object(run.cluster.job)
    number, bundle, site = job.get("job"), job.get("bundle"), SlurmSite.of(job)
    node, pid = _node(run, attempt), _pid(run, attempt)
    if not number or not bundle:
        raise CannotRun(f"{run.cluster.job} is damaged, so the number of the Slurm job of {run.id} is unknown")
    _check_owner(run, site, str(number))
    signals = StepSignals(site)
    argv = [
        site.program("srun"), f"--jobid={number}", *_component(site, run, attempt, str(number)), "--overlap",
        f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--mem=0", "--gres=none", "--mpi=none",
        "--export=ALL", "--quiet", f"--job-name={signals.name}", *(["--pty"] if request.terminal else ["--unbuffered"]),
        *([] if request.stdin or request.terminal else ["--input=none"]),
        f"{bundle}/runtime", "--join", str(pid), *request.argv,
    ]  # fmt: skip
    step = _ExecStep(argv, str(number), signals)
    return _run(step, site, run, attempt, request)


class _ExecStep:
    """The step of the program. `failure` is why srun has not started it, in its own words."""

    def __init__(self, argv: list[str], job: str, signals: StepSignals) -> None:
        self.argv, self.signals = argv, signals
        self.failure = ""
        self._job = job

    def program_errors(self, data: bytes) -> bytes:
        """What the program writes to stderr, without Slurm's own lines about its exit code, which is the answer, and
        about signals from here."""
        for text, job in _NOT_STARTED.findall(data):
            if job.decode() == self._job:
                self.failure = text.decode(errors="replace")
        own = _SIGNALLED.sub(b"", data) if self.signals.has_sent else data
        return b"" if self.failure else _EXIT.sub(b"", own)

    def is_missing(self) -> bool:
        """Whether Slurm says that there is no such step."""
        try:
            return not self.signals.step()
        except SlurmError:  # Slurm does not answer
            return False


def _run(step: _ExecStep, site: SlurmSite, run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
    argv, signals = step.argv, step.signals
    with exec_terminal.signals_for(request, same_terminal=request.terminal) as forwarded:
        # Also without -i: a terminal that srun does not read itself would take no keys, and have no modes afterwards.
        stdin = None if request.stdin or request.terminal else subprocess.DEVNULL
        try:
            child = subprocess.Popen(
                argv, stdin=stdin, stderr=subprocess.PIPE, env=site.job_environment(),
                start_new_session=not request.terminal,
            )  # fmt: skip
        except OSError as error:
            raise CannotRun(f"{argv[0]} cannot be run: {error.strerror}") from None
        copy = threading.Thread(target=_copy_errors, args=(child, step), daemon=True)
        copy.start()
        signals.start(child)
        forwarded.call(signals.send)
        code = _waited(child, step, run, attempt)
        copy.join(_LINGER_SEC)
    if code and step.failure:
        raise _not_started(attempt, step.failure)
    return code if code >= 0 else 128 - code


def _not_started(attempt: TaskAttempt, why: str) -> CannotRun:
    return CannotRun(f"Slurm has not started the program beside {attempt.task}: {why}; try again")


def _waited(child: subprocess.Popen[bytes], step: _ExecStep, run: Run, attempt: TaskAttempt) -> int:
    deadline: float | None = time.monotonic() + _START_SEC
    while True:
        try:
            code = child.wait(_LOOK_SEC)
        except subprocess.TimeoutExpired:
            if _has_finished(run, attempt):
                return _ended(child)
        else:  # Slurm may have been faster to end it, by SIGTERM
            return -signal.SIGKILL if code in _TERMINATED and _has_finished(run, attempt) else code
        if deadline and time.monotonic() > deadline:
            deadline = None
            if step.is_missing() and child.poll() is None:
                _ended(child)
                raise _not_started(attempt, f"srun did not start it within {_START_SEC:g} s")


def _copy_errors(child: subprocess.Popen[bytes], step: _ExecStep) -> None:
    """Copy what the program writes to stderr."""
    assert child.stderr
    with child.stderr, suppress(OSError):  # nobody reads any more
        while data := os.read(child.stderr.fileno(), _BLOCK):
            write_all(2, step.program_errors(data))


def _ended(child: subprocess.Popen[bytes]) -> int:
    """End the program because its task has ended. It counts as killed, whatever the exit code of srun is."""
    child.terminate()
    try:
        child.wait(_LINGER_SEC)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    return -signal.SIGKILL


def _own_events(run: Run, attempt: TaskAttempt) -> Iterator[dict[str, Any]]:
    folder = run.task(attempt.task.role, attempt.task.task_index, attempt.job_attempt, attempt.task_attempt)
    return events.read(folder / EVENTS_FILE)


def _has_finished(run: Run, attempt: TaskAttempt) -> bool:
    return any(event.get("event") == FINISHED for event in _own_events(run, attempt))


def _pid(run: Run, attempt: TaskAttempt) -> int:
    """The pid of the task's supervisor on its node. CannotRun: it does not run."""
    found = None
    for event in _own_events(run, attempt):
        if event.get("event") == STARTING:
            found = event.get("pid")
        elif event.get("event") == FINISHED:
            found = None
    if not isinstance(found, int):
        raise CannotRun(f"{attempt.task} is not running: it has ended, or has not started yet")
    return found


def _node(run: Run, attempt: TaskAttempt) -> str:
    """The name of the task's node. CannotRun: it has none yet."""
    found = ""
    for event in events.read(run.events):
        of_task = (event.get("role"), event.get("index")) == tuple(attempt.task)
        if of_task and event.get("event") == JobEvent.TASK_PLACED:
            found = str(event.get("node") or "")
    if not found:
        raise CannotRun(f"{attempt.task} has no node yet; try again in a moment")
    return found


def _check_owner(run: Run, site: SlurmSite, number: str) -> None:
    """CannotRun: the job is another user's. Slurm would refuse root, too, without saying why."""
    owner = run.path.stat().st_uid
    if owner == os.getuid():
        return
    with suppress(SlurmError):
        if job_table.of_run(job_table.listed(site, os.getuid()), run.id, number) is None:
            name = user_name(owner)
            raise CannotRun(
                f"{run.id} is a job of {name}, and Slurm lets nobody else run a program beside its tasks; "
                f"run kedge exec as {name}"
            )


def _component(site: SlurmSite, run: Run, attempt: TaskAttempt, number: str) -> list[str]:
    """The option for the task's component, if the job is a heterogeneous one: it has one for each role. CannotRun:
    Slurm does not answer, for which srun would wait for minutes, or does not know the job."""
    try:
        listed = commands.run(site, "squeue", "--all", "--noheader", f"--jobs={number}", "--format=%i")
    except SlurmError as error:
        raise _not_started(attempt, str(error)) from None
    try:
        names = [role["name"] for role in run.plan()["roles"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return [f"--het-group={names.index(attempt.task.role)}"] if "+" in listed and attempt.task.role in names else []
