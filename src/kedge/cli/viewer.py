"""Shows a run until it ends or the user detaches, then its summary. The job does not depend on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from kedge import __version__
from kedge.cli.stop_requests import Detached, StopRequests
from kedge.cli.streams import reader_is_gone
from kedge.cli.view.live import Json, Live, LiveView, StopsOnly
from kedge.cli.view.log_lines import print_whole
from kedge.cli.view.notes import print_notes
from kedge.cli.view.problems import show_problems
from kedge.cli.view.summary import print_summary
from kedge.controller.client import End
from kedge.errors import EXIT_BUG, EXIT_FAILED, EXIT_OK
from kedge.jobs import runs
from kedge.runs import status
from kedge.runs.folder import Run
from kedge.runs.recent import Recent
from kedge.runs.status import JobStatus
from kedge.states import FINAL, State

_CONTROLLER_EXIT_SEC = 5.0  # how long a killed controller may take to disappear


class Viewer:
    """Shows a run with these tasks from its start, or without most of what was before, its `recent` part. Call `start`,
    then `until_end`, or `leave` if something fails in between."""

    def __init__(self, run: Run, tasks: list[str], *, quiet: bool, as_json: bool, recent: Recent | None = None) -> None:
        self._run, self._as_json = run, as_json
        view = Json() if as_json else StopsOnly() if quiet else LiveView(tasks)
        self._live = Live(run, view, lines=not quiet, recent=recent)

    def start(self) -> None:
        """Start the thread that shows the run."""
        self._live.start()

    def leave(self) -> bool:
        """Show nothing more. Returns whether the thread has ended; it has not if nobody reads its output."""
        return self._live.leave()

    def until_end(self, wait: Callable[[], End | None], requests: StopRequests, notes: tuple[str, ...] = ()) -> int:
        """Show the run until `wait` returns how it ended (None: its controller was killed), then its summary with these
        notes under it. Returns the exit code of the command."""
        try:
            with requests.detachable():
                end = wait()
        except Detached:
            return self._detached(requests)
        except BaseException:
            self.leave()
            raise
        end = end or end_of(self._run)
        requests.over(end.exit_code)
        self._live.finish()
        if end.error:
            return print_error(self._run, end)
        if not self._as_json:
            print_end(self._run, status.read(self._run), notes)
        return end.exit_code

    def _detached(self, requests: StopRequests) -> int:
        """The exit code is that of `kedge run --detach`: the user got what they asked for, and the job's own comes from
        kedge attach and kedge wait."""
        requests.over(EXIT_OK)
        stopping = status.read(self._run).state == State.STOPPING
        has_ended = self.leave()
        continues = "is being stopped" if stopping else "continues"
        print_whole(f"{self._run.id} {continues} in the background; come back with: kedge attach {self._run.id}")
        if not has_ended:
            os._exit(EXIT_OK)
        return EXIT_OK


def end_of(run: Run) -> End:
    """How a run ended, from its files: that of a viewer without the controller's own answer. If its controller was
    killed, perhaps after it had recorded the end, the kernel may take a moment to release the controller's lock; until
    then the run looks alive."""
    now = runs.wait(run, time.monotonic() + _CONTROLLER_EXIT_SEC)
    if now.state not in FINAL:
        print_notes(f"the job's controller is gone; end the rest of the run with kedge stop {run.id}")
    return End(exit_code(now))


def exit_code(now: JobStatus) -> int:
    """The exit code of `kedge run` for a run that has ended or is lost."""
    if now.state in FINAL and now.exit_code is not None:
        return now.exit_code
    return EXIT_OK if now.state == State.SUCCEEDED else EXIT_FAILED


def print_end(run: Run, now: JobStatus, notes: tuple[str, ...] = ()) -> None:
    """Print the summary of a run with these notes under it."""
    with _ignoring_closed_stdout():
        print_summary(run, now, notes)


def print_error(run: Run, end: End) -> int:
    """Print the error that ended the controller of a run. Returns the exit code."""
    show_problems((end.error,))
    if end.exit_code == EXIT_BUG:
        log = run.path / "controller.log"
        click.echo(f"This is a bug in kedge {__version__}: please report it with {log}", err=True)
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
