"""kedge wait: until a run has ended."""

from __future__ import annotations

import time

import click

from kedge import jobs
from kedge.cli import options
from kedge.errors import EXIT_FAILED, EXIT_OK
from kedge.runs import status


@click.command()
@options.job
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up after this time (exit code 1)."
)
def command(job: str, timeout: float | None) -> int:
    """Wait until a run has ended, and print its state. Exit code 0 if it succeeded, else 1."""
    now = jobs.wait(jobs.find(job), None if timeout is None else time.monotonic() + timeout)
    click.echo(now.state + (f": {now.text}" if now.text and now.state != status.SUCCEEDED else ""))
    return EXIT_OK if now.state == status.SUCCEEDED else EXIT_FAILED
