"""kedge wait: wait until a run ends."""

from __future__ import annotations

import time

import click

from kedge.cli import options
from kedge.cli.view.notes import print_notes
from kedge.cli.view.wording import succeeded_despite_failures
from kedge.errors import EXIT_FAILED, EXIT_OK
from kedge.jobs import runs
from kedge.runs.status import JobStatus
from kedge.states import State
from kedge.terminal_text import one_line


@click.command()
@options.job
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up after this time (exit code 1)."
)
def command(job: str, timeout: float | None) -> int:
    """Wait until a run ends and print its state. Exit code 0 if it succeeded, otherwise 1."""
    now = runs.wait(runs.find(job), None if timeout is None else time.monotonic() + timeout)
    click.echo(_state_text(now))
    if now.state == State.DAMAGED:
        print_notes(f"kedge rm {job} ends what is left of the run and deletes it")
    elif now.state == State.LOST:
        print_notes(f"the run's controller is gone; end the rest of the run with kedge stop {job}")
    return EXIT_OK if now.state == State.SUCCEEDED else EXIT_FAILED


def _state_text(now: JobStatus) -> str:
    if now.state == State.SUCCEEDED:
        return one_line(now.text or "") if succeeded_despite_failures(now) else now.state
    reason = one_line(now.text or "")
    if reason.startswith(now.state):  # "stopped by Ctrl-C"
        return reason
    return f"{now.state}: {reason}" if reason else now.state
