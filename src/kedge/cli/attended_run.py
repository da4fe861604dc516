"""Submits a job and, unless it is detached, shows its output until it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from kedge import __version__
from kedge.cli.stop_requests import StopRequests
from kedge.cli.streams import reader_is_gone
from kedge.cli.view.copy_progress import CopyBar
from kedge.cli.view.live import Json, Live, LiveView, Silent
from kedge.cli.view.notes import print_notes, texts
from kedge.cli.view.problems import show_in_brief, show_problems
from kedge.cli.view.summary import print_summary
from kedge.controller.client import End, LoadingController
from kedge.engines.base import Engine
from kedge.errors import EXIT_BUG, EXIT_FAILED, EXIT_OK
from kedge.jobs import runs, submission
from kedge.jobs.engine_choice import EngineChoice, choose
from kedge.jobs.preparation import PreparedJob, prepare
from kedge.resolve.model import Inputs
from kedge.runs import status
from kedge.runs.folder import Run
from kedge.states import FINAL, State

_CONTROLLER_EXIT_SEC = 5.0  # how long a killed controller may take to disappear


def run(
    file: str,
    inputs: Inputs,
    choice: EngineChoice,
    loading: LoadingController | None,
    *,
    detach: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run the job of a file by the controller that is `loading` the modules of the expected engine. Returns the exit
    code of the command."""
    prepared = prepare(file, inputs)
    where = choose(choice, prepared.plan, prepared.settings).where
    show_in_brief(prepared.warnings)
    notes = where.notes(prepared.plan)
    print_notes(*prepared.plan.notes, *texts(notes, in_summary=False))
    with StopRequests() as requests:
        submitted = _submitted(prepared, where, requests, loading)
        if detach:
            return _detached(submitted)
        return _attended(submitted, requests, texts(notes, in_summary=True), quiet, as_json)


def _submitted(
    prepared: PreparedJob, where: Engine, requests: StopRequests, loading: LoadingController | None
) -> submission.Submitted:
    """The job with its run folder and its controller, which waits to be started and receives requests to stop."""
    with CopyBar() as bar:
        submitted = submission.submit(prepared, where, bar, loading)
    try:
        requests.hand_to(submitted.controller)
        print_notes(*submitted.notes)
    except BaseException:
        submission.withdraw(submitted)
        raise
    return submitted


def _detached(submitted: submission.Submitted) -> int:
    submission.start(submitted)
    if end := submitted.controller.started():
        return _report_error(submitted, end)
    click.echo(submitted.run.id)
    return EXIT_OK


def _attended(
    submitted: submission.Submitted, requests: StopRequests, notes: tuple[str, ...], quiet: bool, as_json: bool
) -> int:
    """Show the run until it has ended, then its summary with these notes under it."""
    run, plan = submitted.run, submitted.prepared.plan
    live = Live(run, Json() if as_json else Silent() if quiet else LiveView(plan), lines=not quiet)
    with ExitStack() as view:
        try:
            view.enter_context(live)
        except BaseException:  # the thread cannot be started
            submission.withdraw(submitted)
            raise
        submission.start(submitted)
        end = submitted.controller.wait() or _end_of_killed_controller(run)
        requests.over(end.exit_code)
    if end.error:
        return _report_error(submitted, end)
    if not as_json:
        with _ignoring_closed_stdout():
            print_summary(run, status.read(run), notes)
    return end.exit_code


@contextmanager
def _ignoring_closed_stdout() -> Iterator[None]:
    """If the reader of stdout has gone, the exit code must still be that of the job."""
    try:
        yield
    except SystemExit:  # rich raises it for a closed pipe
        return
    except OSError as error:
        if not reader_is_gone(error):
            raise


def _end_of_killed_controller(run: Run) -> End:
    """The end of a job whose controller was killed, perhaps after it had recorded the end. The kernel may take a moment
    to release the controller's lock; until then the run looks alive."""
    state = runs.wait(run, time.monotonic() + _CONTROLLER_EXIT_SEC).state
    if state not in FINAL:
        print_notes(f"the job's controller is gone; end the rest of the run with kedge stop {run.id}")
    return End(EXIT_OK if state == State.SUCCEEDED else EXIT_FAILED)


def _report_error(submitted: submission.Submitted, end: End) -> int:
    """Print the error that ended the controller. Returns the exit code."""
    show_problems((end.error,))
    if end.exit_code == EXIT_BUG:
        click.echo(f"This is a bug in kedge {__version__}: please report it with {submitted.controller.log}", err=True)
    return end.exit_code
