"""kedge stop: end a run."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import click

from kedge import jobs
from kedge.cli import options
from kedge.cli.streams import say_note
from kedge.errors import CannotRun
from kedge.runs import lock, status
from kedge.runs.folder import Run
from kedge.runs.status import JobStatus

_QUIET_SEC = 5.0  # then it is said what is waited for
_MOST_TASKS = 3


@click.command()
@options.job
@click.option("--kill", is_flag=True, help="Kill at once, without the grace period.")
@click.option("--no-wait", is_flag=True, help="Return when the stop is asked for.")
def command(job: str, kill: bool, no_wait: bool) -> None:
    """Stop a run, in an orderly way.

    Its tasks get their stop signal, and SIGKILL after their grace period. What is paused or suspended goes on for that.
    Of a run whose controller is lost, all processes that are left are ended.
    """
    run = jobs.find(job)
    before = status.read(run)
    if before.state in status.FINAL:
        _complete(run)
        click.echo(f"{run.id} has ended already: {before.state}")
        return
    try:
        now = _stopped(run, kill, no_wait)
    except FileNotFoundError:
        click.echo(f"{run.id} has been removed")
        return
    if now.left:
        raise CannotRun(f"{run.id} is {now.state}, but {now.left}")
    click.echo(f"{run.id} {now.state}")


def _complete(run: Run) -> None:
    """Let a run that has ended have its report, if its controller was killed before it could write one."""
    if not lock.is_held(run.lock):
        with suppress(FileNotFoundError):  # it has been removed meanwhile
            jobs.stop(run)


def _stopped(run: Run, kill: bool, no_wait: bool) -> JobStatus:
    """The status after a stop. FileNotFoundError: somebody has removed the run."""
    before = status.read(run)
    _stop(run, kill)
    now = status.read(run) if no_wait else _wait(run, kill)
    lost = now.state in status.WITHOUT_END and before.state not in status.WITHOUT_END
    if lost and not no_wait:  # its controller ended meanwhile
        _stop(run, kill)
        now = status.read(run)
    os.lstat(run.run_file)
    return now


def _stop(run: Run, kill: bool) -> None:
    for note in jobs.stop(run, kill):
        say_note(note)


def _wait(run: Run, kill: bool) -> JobStatus:
    """Until the run has ended, or is lost; nobody waits for long without hearing for what."""
    said = ""
    while True:
        now = jobs.wait(run, time.monotonic() + _QUIET_SEC)
        if now.state in status.FINAL | status.WITHOUT_END:
            return now
        if (text := _waits_for(run, now, kill)) != said:
            say_note(text)
        said = text


def _waits_for(run: Run, now: JobStatus, kill: bool) -> str:
    if pid := jobs.suspended(run):
        return f"the job's controller (pid {pid}) is suspended: kill -CONT {pid} lets it go on, --kill ends it"
    tasks = [f"{task.role}:{task.index}" for task in now.tasks if task.state == status.RUNNING]
    if not tasks:
        return f"waiting for the job's controller: {now.state}"
    more = f" and {len(tasks) - _MOST_TASKS} more" if len(tasks) > _MOST_TASKS else ""
    names = ", ".join(tasks[:_MOST_TASKS]) + more
    if kill:
        return f"waiting for {names}, which the kernel is ending"
    return f"waiting for {names}: their grace period is {_grace(run)}; kedge stop --kill {run.id} ends it"


def _grace(run: Run) -> str:
    return f"{run.stop_grace_sec():g} s"
