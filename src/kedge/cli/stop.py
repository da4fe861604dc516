"""kedge stop: end a run."""

from __future__ import annotations

import click

from kedge import jobs
from kedge.cli import options
from kedge.runs import status


@click.command()
@options.job
@click.option("--kill", is_flag=True, help="Kill at once, without the grace period.")
@click.option("--no-wait", is_flag=True, help="Return when the stop is asked for.")
def command(job: str, kill: bool, no_wait: bool) -> None:
    """Stop a run, in an orderly way.

    Its tasks get their stop signal, and SIGKILL after their grace period. Of a run whose controller is lost, all
    processes that are left are ended.
    """
    run = jobs.find(job)
    before = status.read(run)
    if before.state in status.FINAL:
        click.echo(f"{run.id} has ended already: {before.state}")
        return
    jobs.stop(run, kill)
    now = status.read(run) if no_wait else jobs.wait(run)
    click.echo(f"{run.id} {now.state}")
