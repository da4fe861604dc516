"""kedge run: submit a job and, unless it is detached, show its output until it ends."""

from __future__ import annotations

import importlib

import click

from kedge.cli.engine_options import engine
from kedge.cli.job_options import job_file
from kedge.cli.stop_requests import Detached, StopRequests
from kedge.controller.client import loading
from kedge.errors import EXIT_INTERRUPTED
from kedge.jobs.engine_choice import EngineChoice
from kedge.resolve.model import Inputs
from kedge.settings import values


@click.command()
@job_file
@engine
@click.option("-d", "--detach", is_flag=True, help="Run in the background: print the run id and return.")
@click.option("-q", "--quiet", is_flag=True, help="Show only the summary.")
@click.option("--json", "as_json", is_flag=True, help="Print events and log lines as JSON, one object a line.")
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
    try:
        with StopRequests() as requests, loading(choice.expected(values.load())) as controller:
            # Late, because loading it takes as long as what the controller loads meanwhile.
            attended = importlib.import_module("kedge.cli.attended_run")
            shown = {"detach": detach, "quiet": quiet, "as_json": as_json}
            code: int = attended.run(file, inputs, choice, controller, requests, **shown)
            return code
    except Detached:
        click.echo("kedge: the job has not been submitted", err=True)
        return EXIT_INTERRUPTED
