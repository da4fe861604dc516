"""kedge validate: is the job file right?"""

from __future__ import annotations

import click

from kedge import jobs
from kedge.cli import options
from kedge.resolve.model import Inputs


@click.command()
@options.job_file
def command(file: str, inputs: Inputs) -> None:
    """Check a job file, and show every problem at once."""
    plan = jobs.prepare(file, inputs).plan
    roles = ", ".join(f"{role.name} ×{role.instances}" for role in plan.roles)
    click.echo(f"{file}: job {plan.job}: {roles}")
    for notice in plan.notices:
        click.echo(f"note: {notice}", err=True)
