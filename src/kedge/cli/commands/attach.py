"""kedge attach: show an active run again, as kedge run does."""

from __future__ import annotations

import os
import time

import click

from kedge.cli import options
from kedge.cli.stop_requests import StopRequests
from kedge.cli.view.log_lines import print_json, print_whole
from kedge.cli.view.notes import print_notes
from kedge.cli.view.summary import duration
from kedge.cli.viewer import Viewer, end_of, exit_code, print_end
from kedge.controller.client import End
from kedge.errors import InputError
from kedge.jobs import runs
from kedge.runs import events
from kedge.runs.folder import Run
from kedge.runs.recent import Recent
from kedge.runs.status import JobStatus
from kedge.states import FINAL, WITHOUT_END


@click.command()
@options.job
@options.quiet
@options.as_json
def command(job: str, quiet: bool, as_json: bool) -> int:
    """Show the output of an active run again until it ends.

    Prints the last lines so far, then what kedge run prints, with the same summary and exit code. Ctrl-C stops the job,
    a second Ctrl-C kills it, Ctrl-\\ detaches again. Several viewers of one run can be attached at once. JOB is a run
    id, a unique prefix of one, or a job name for its newest run.
    """
    run = runs.find(job)
    with StopRequests() as requests:
        requests.hand_to(_ControllerElsewhere(run))
        recent = Recent(run)
        if recent.status.state in FINAL | WITHOUT_END:
            return _ended(run, recent.status, as_json)
        if not quiet and not as_json:
            print_whole(_opening(run, recent.status))
        if pid := runs.suspended(run):
            print_notes(f"the job's controller (pid {pid}) is suspended; resume it with kill -CONT {pid}")
        return _shown(run, recent, requests, quiet, as_json)


class _ControllerElsewhere:
    """The controller of a run that another process has submitted."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def outlives_terminal(self) -> bool:
        return self._run.cluster.exists

    def signal(self, number: int, /) -> None:
        try:
            runs.forward(self._run, number)
        except FileNotFoundError:  # the run was removed
            return


def _shown(run: Run, recent: Recent, requests: StopRequests, quiet: bool, as_json: bool) -> int:
    tasks = [f"{task.role}:{task.index}" for task in recent.status.tasks]
    viewer = Viewer(run, tasks, quiet=quiet, as_json=as_json, recent=recent)
    viewer.start()
    return viewer.until_end(lambda: _end(run), requests)


def _end(run: Run) -> End:
    """Wait for the end of a run."""
    runs.wait(run)
    if not os.path.lexists(run.run_file):
        raise InputError(f"{run.id} has been removed")
    return end_of(run)


def _opening(run: Run, now: JobStatus) -> str:
    attempt = f", attempt {now.attempt + 1}" if now.attempt else ""
    state = now.state if now.pending is None else "pending"
    return f"{run.id} is {state}, submitted {duration(now.submitted, None)} ago{attempt}; Ctrl-\\ detaches"


def _ended(run: Run, now: JobStatus, as_json: bool) -> int:
    """What is left to show of a run that has ended or has lost its controller."""
    now = runs.wait(run, time.monotonic() + runs.ENDING_SEC)  # for its report
    if as_json:
        for event in events.read(run.events):
            print_json(event)
    else:
        print_end(run, now)
    return exit_code(now)
