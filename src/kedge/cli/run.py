"""kedge run: submit a job and, unless it is detached, show it until it has ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import click

from kedge import jobs
from kedge.cli import options
from kedge.cli.copying import CopyBar
from kedge.cli.live import Console, Json, Live, Silent
from kedge.cli.problems import show_in_brief
from kedge.cli.streams import styled
from kedge.cli.summary import print_summary
from kedge.engines.base import Engine, Outcome
from kedge.errors import EXIT_CANNOT_RUN, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from kedge.resolve.model import Inputs
from kedge.runs import status


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

    Ctrl-C stops it in an orderly way, a second one at once. Exit codes: 0 succeeded, 1 the job failed or was stopped,
    2 the input is wrong, 3 a bug in kedge, 4 it cannot run here, 130 interrupted.
    """
    prepared = jobs.prepare(file, inputs)
    show_in_brief(prepared.warnings)
    _say((*prepared.plan.notices, *where.notices(prepared.plan)))
    with CopyBar() as bar, _ended_in_order():
        submitted = jobs.submit(prepared, where, bar)
    _say(submitted.notes)
    if detach:
        jobs.run_detached(submitted)
        click.echo(submitted.run.id)
        return EXIT_OK
    return _foreground(submitted, quiet, as_json)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a terminal that is closed end what is inside by a KeyboardInterrupt: nothing half-made is
    left. As while the job runs, only a hang-up may be ignored (nohup)."""
    hang_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    previous = {n: signal.signal(n, signal.default_int_handler) for n in (signal.SIGINT, signal.SIGTERM, *hang_up)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _foreground(submitted: jobs.Submitted, quiet: bool, as_json: bool) -> int:
    run, plan = submitted.run, submitted.prepared.plan
    live = Live(run, Json() if as_json else Silent() if quiet else Console(plan), lines=not quiet)
    with ExitStack() as view:
        try:
            view.enter_context(live)
        except BaseException:  # no thread can be started
            jobs.withdraw(submitted)
            raise
        outcome = jobs.run(submitted)
    if not as_json:
        with suppress(BrokenPipeError, SystemExit):  # the reader has gone; the exit code still says how the job ended
            print_summary(run, status.read(run), submitted.where.remarks(plan))
    return _exit_code(outcome)


def _say(notices: tuple[str, ...]) -> None:
    for notice in notices:
        click.echo(styled("note: ", fg="yellow") + notice, err=True)


def _exit_code(outcome: Outcome) -> int:
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    if outcome.disk_full:
        return EXIT_CANNOT_RUN
    return EXIT_OK if outcome.state == status.SUCCEEDED else EXIT_FAILED
