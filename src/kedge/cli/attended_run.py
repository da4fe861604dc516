"""Submits a job and, unless it is detached, shows its output until it ends."""

from __future__ import annotations

import click

from kedge.cli.stop_requests import StopRequests
from kedge.cli.view.copy_progress import CopyBar
from kedge.cli.view.notes import print_notes, texts
from kedge.cli.view.problems import show_in_brief
from kedge.cli.viewer import Viewer, print_error
from kedge.controller.client import LoadingController
from kedge.engines.base import Engine
from kedge.errors import EXIT_OK, KedgeError
from kedge.jobs import submission
from kedge.jobs.engine_choice import EngineChoice, choose
from kedge.jobs.preparation import PreparedJob, prepare
from kedge.resolve.model import Inputs


def run(
    file: str,
    inputs: Inputs,
    choice: EngineChoice,
    loading: LoadingController | None,
    requests: StopRequests,
    *,
    detach: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run the job of a file by the controller that is `loading` the modules of the expected engine. Returns the exit
    code of the command. Detached: the user has pressed Ctrl-\\ before it was submitted."""
    prepared = prepare(file, inputs)
    where, decided = choose(choice, prepared)
    show_in_brief(prepared.warnings)
    notes = where.notes(prepared.plan)
    print_notes(*prepared.plan.notes, *texts(notes, in_summary=False))
    try:
        submitted = _submitted(prepared, where, requests, loading)
    except KedgeError:
        print_notes(*decided)  # the error may be about an option that the settings have set
        raise
    if detach:
        return _in_background(submitted, requests)
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


def _in_background(submitted: submission.Submitted, requests: StopRequests) -> int:
    submission.start(submitted, print_notes)
    if end := submitted.controller.started():
        return print_error(submitted.run, end)
    requests.over(EXIT_OK)
    click.echo(submitted.run.id)
    return EXIT_OK


def _attended(
    submitted: submission.Submitted, requests: StopRequests, notes: tuple[str, ...], quiet: bool, as_json: bool
) -> int:
    """Show the run until it has ended, then its summary with these notes under it."""
    tasks = [f"{role}:{index}" for role, index in submitted.prepared.plan.tasks()]
    viewer = Viewer(submitted.run, tasks, quiet=quiet, as_json=as_json)
    try:
        viewer.start()
    except BaseException:  # the thread cannot be started
        submission.withdraw(submitted)
        raise
    try:
        submission.start(submitted, print_notes)
    except BaseException:
        viewer.leave()
        raise
    return viewer.until_end(submitted.controller.wait, requests, notes)
