"""kedge run: submit a job and, unless it is detached, show its output until it ends."""

from __future__ import annotations

import click

from kedge.cli import new_run, options
from kedge.cli.engine_options import engine
from kedge.cli.job_options import job_file
from kedge.jobs.engine_choice import EngineChoice
from kedge.resolve.model import Inputs


@click.command()
@job_file
@engine
@options.detach
@options.quiet
@options.as_json
def command(
    file: str,
    inputs: Inputs,
    choice: EngineChoice,
    detach: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a job and show its output until it ends. FILE may be - for stdin.

    Ctrl-C stops the job gracefully, a second Ctrl-C at once. Ctrl-\\ detaches: the job continues, and kedge attach
    shows it again. The job also continues if this command is killed. Exit codes: 0 succeeded or detached, 1 the job
    failed or was stopped, 2 invalid input, 3 a bug in kedge, 4 the job cannot run here, 130 interrupted.
    """
    return new_run.run(file, inputs, choice, detach=detach, quiet=quiet, as_json=as_json)
