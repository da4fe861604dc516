"""kedge release: end the hold of a failed task."""

from __future__ import annotations

import click

from kedge.cli import options
from kedge.errors import InputError
from kedge.jobs import runs
from kedge.runs import status
from kedge.states import FINAL, WITHOUT_END


@click.command()
@options.job
def command(job: str) -> None:
    """End the hold of a failed task.

    A job that runs with --hold-on-failure keeps its first failed task alive. The task now ends as it would have without
    the hold: its exit hooks run, it may be tried again, and the job goes on. JOB is a run id, a unique prefix of one,
    or a job name for its newest run.
    """
    run = runs.find(job)
    now = status.read(run)
    if now.state in FINAL | WITHOUT_END:
        raise InputError(f"{run.id} holds no task: its state is {now.state}")
    if now.held is None:
        raise InputError(
            f"{run.id} holds no task now; only the first task that fails is held, and only with --hold-on-failure"
        )
    runs.release(run)
    click.echo(f"{now.held.role}:{now.held.index} of {run.id} is released")
