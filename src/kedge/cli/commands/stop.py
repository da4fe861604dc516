"""kedge stop: stop a run."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

import click

from kedge.cli import options
from kedge.cli.view.notes import print_notes
from kedge.errors import CannotRun
from kedge.jobs import runs
from kedge.runs import liveness, status
from kedge.runs.folder import Run
from kedge.runs.status import JobStatus
from kedge.states import FINAL, WITHOUT_END, State

_QUIET_SEC = 5.0  # after this, a note names what kedge is waiting for
_UNHEARD = "the job's controller has not answered yet; if it does not, the job is ended without it"
_MOST_TASKS = 3  # named in such a note


@click.command()
@options.job
@click.option("--kill", is_flag=True, help="Kill at once, without the grace period.")
@click.option("--no-wait", is_flag=True, help="Return once the stop is requested.")
def command(job: str, kill: bool, no_wait: bool) -> None:
    """Stop a run gracefully.

    Tasks get their stop signal, then SIGKILL after their grace period. Paused or suspended processes are resumed first.
    If the run has lost its controller, all its remaining processes are ended.
    """
    run = runs.find(job)
    before = status.read(run)
    if before.state in FINAL:
        _complete(run)
        click.echo(f"{run.id} has already ended: {before.state}")
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
    """Write the report of an ended run if its controller was killed before it could."""
    if not liveness.is_controlled(run):
        with suppress(FileNotFoundError):  # the run was removed in the meantime
            runs.stop(run)


def _stopped(run: Run, kill: bool, no_wait: bool) -> JobStatus:
    """The status after a stop. FileNotFoundError if the run was removed in the meantime."""
    before = status.read(run)
    _stop(run, kill)
    now = status.read(run) if no_wait else _wait(run, kill)
    lost = now.state in WITHOUT_END and before.state not in WITHOUT_END
    if lost and not no_wait:  # its controller ended in the meantime
        _stop(run, kill)
        now = status.read(run)
    os.lstat(run.run_file)
    return now


def _stop(run: Run, kill: bool) -> None:
    slow = threading.Timer(_QUIET_SEC, print_notes, [_UNHEARD]) if kill else None
    if slow:
        slow.daemon = True
        slow.start()
    try:
        notes = runs.stop(run, kill)
    finally:
        if slow:
            slow.cancel()
    print_notes(*notes)


def _wait(run: Run, kill: bool) -> JobStatus:
    """Wait until the run has ended or is lost. Notes name what the wait is for."""
    last_note = ""
    while True:
        now = runs.wait(run, time.monotonic() + _QUIET_SEC)
        if now.state in FINAL | WITHOUT_END:
            return now
        if (note := _waiting_for(run, now, kill)) != last_note:
            print_notes(note)
        last_note = note


def _waiting_for(run: Run, now: JobStatus, kill: bool) -> str:
    if pid := runs.suspended(run):
        return f"the job's controller (pid {pid}) is suspended; resume it with kill -CONT {pid}, or end it with --kill"
    tasks = [f"{task.role}:{task.index}" for task in now.tasks if task.state == State.RUNNING]
    if not tasks:
        return f"waiting for the job's controller: {now.state}"
    more = f" and {len(tasks) - _MOST_TASKS} more" if len(tasks) > _MOST_TASKS else ""
    names = ", ".join(tasks[:_MOST_TASKS]) + more
    if kill:
        return f"waiting for the kernel to end {names}"
    return f"waiting for {names}: the grace period is {_grace(run)}; cut it short with kedge stop --kill {run.id}"


def _grace(run: Run) -> str:
    return f"{run.stop_grace_sec():g} s"
