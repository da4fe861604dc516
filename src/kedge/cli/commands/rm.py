"""kedge rm: delete runs."""

from __future__ import annotations

import click

from kedge import jobs
from kedge.cli.options import complete_job


@click.command()
@click.argument("job", nargs=-1, required=True, shell_complete=complete_job)
def command(job: tuple[str, ...]) -> None:
    """Delete runs that have ended, with all their logs.

    A JOB is a run's id, a unique beginning of one, or a job's name for its newest run.
    """
    for run in dict.fromkeys(jobs.find(name) for name in job):
        jobs.remove(run)
        click.echo(f"{run.id} removed")
