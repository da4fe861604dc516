"""kedge rm: delete runs."""

from __future__ import annotations

import click

from kedge.cli.options import complete_job
from kedge.jobs import runs


@click.command()
@click.argument("job", nargs=-1, required=True, shell_complete=complete_job)
def command(job: tuple[str, ...]) -> None:
    """Delete ended runs and all their logs.

    JOB is a run id, a unique prefix of one, or a job name for its newest run.
    """
    for run in dict.fromkeys(runs.find(name) for name in job):
        runs.remove(run)
        click.echo(f"{run.id} removed")
