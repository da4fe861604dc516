"""kedge run: submit a job and, unless it is detached, show it until it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from kedge import __version__, jobs
from kedge.cli import options
from kedge.cli.stop_requests import StopRequests
from kedge.cli.streams import reader_is_gone, say_note
from kedge.cli.view.copy_progress import CopyBar
from kedge.cli.view.live import Json, Live, LiveView, Silent
from kedge.cli.view.problems import show_in_brief, show_problems
from kedge.cli.view.summary import print_summary
from kedge.controller.client import End
from kedge.engines.base import Engine
from kedge.errors import EXIT_BUG, EXIT_FAILED, EXIT_OK
from kedge.resolve.model import Inputs
from kedge.runs import status
from kedge.runs.folder import Run

_GOING_SEC = 5.0  # how long a controller that was killed may take to be gone


@click.command()
@options.job_file
@options.engine
@click.option("-d", "--detach", is_flag=True, help="Run in the background: print the run's id and return.")
@click.option("-q", "--quiet", is_flag=True, help="Show only the summary.")
@click.option("--json", "as_json", is_flag=True, help="Show events and log lines as JSON, one object a line.")
def command(
    file: str,
    inputs: Inputs,
    where: Engine,
    detach: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a job, and show it until it has ended. FILE may be - for stdin.

    Ctrl-C stops it in an orderly way, a second one at once. The job goes on when this command is killed. Exit
    codes: 0 succeeded, 1 the job failed or was stopped, 2 the input is wrong, 3 a bug in kedge, 4 it cannot run here,
    130 interrupted.
    """
    prepared = jobs.prepare(file, inputs)
    show_in_brief(prepared.warnings)
    _say((*prepared.plan.notices, *where.notices(prepared.plan)))
    with StopRequests() as requests:
        submitted = _submitted(prepared, where, requests)
        return _detached(submitted) if detach else _attended(submitted, requests, quiet, as_json)


def _submitted(prepared: jobs.PreparedJob, where: Engine, requests: StopRequests) -> jobs.Submitted:
    """The job with its run folder and a controller that waits for its orders, and gets the requests to stop."""
    with CopyBar() as bar:
        submitted = jobs.submit(prepared, where, bar)
    try:
        requests.hand_to(submitted.controller)
        _say(submitted.notes)
    except BaseException:
        jobs.withdraw(submitted)
        raise
    return submitted


def _detached(submitted: jobs.Submitted) -> int:
    jobs.start(submitted)
    if end := submitted.controller.started():
        return _tell(submitted, end)
    click.echo(submitted.run.id)
    return EXIT_OK


def _attended(submitted: jobs.Submitted, requests: StopRequests, quiet: bool, as_json: bool) -> int:
    run, plan = submitted.run, submitted.prepared.plan
    live = Live(run, Json() if as_json else Silent() if quiet else LiveView(plan), lines=not quiet)
    with ExitStack() as view:
        try:
            view.enter_context(live)
        except BaseException:  # no thread can be started
            jobs.withdraw(submitted)
            raise
        jobs.start(submitted)
        end = submitted.controller.wait() or _without_a_word(run)
        requests.over(end.exit_code)
    if end.error:
        return _tell(submitted, end)
    if not as_json:
        with _whoever_reads():
            print_summary(run, status.read(run), submitted.where.remarks(plan))
    return end.exit_code


@contextmanager
def _whoever_reads() -> Iterator[None]:
    """When the reader has gone, the exit code still says how the job ended."""
    try:
        yield
    except SystemExit:  # so rich tells of a closed pipe
        return
    except OSError as error:
        if not reader_is_gone(error):
            raise


def _without_a_word(run: Run) -> End:
    """How the job stands when its controller was killed: perhaps it had written its end. The kernel may take a moment
    to let go of the controller's lock, by which the run looks alive."""
    state = jobs.wait(run, time.monotonic() + _GOING_SEC).state
    if state not in status.FINAL:
        click.echo(f"note: the job's controller is gone; kedge stop {run.id} ends what is left of it", err=True)
    return End(EXIT_OK if state == status.SUCCEEDED else EXIT_FAILED)


def _tell(submitted: jobs.Submitted, end: End) -> int:
    """Say which error has ended the controller."""
    show_problems((end.error,))
    if end.exit_code == EXIT_BUG:
        click.echo(f"This is a bug in kedge {__version__}: please report it with {submitted.controller.log}", err=True)
    return end.exit_code


def _say(notices: tuple[str, ...]) -> None:
    for notice in notices:
        say_note(notice)
