"""kedge ps: list this user's runs."""

from __future__ import annotations

import json

import click

from kedge.cli.view.cluster_text import pending
from kedge.cli.view.notes import print_notes
from kedge.cli.view.styled_text import Text
from kedge.cli.view.summary import duration
from kedge.cli.view.tables import Table, show
from kedge.cli.view.wording import STATE_COLOURS, succeeded_despite_failures
from kedge.diagnose.model import UNKNOWN
from kedge.jobs import runs
from kedge.runs.folder import RunInfo
from kedge.runs.status import JobStatus
from kedge.states import FINAL, State
from kedge.terminal_text import one_line


@click.command()
@click.option(
    "-a", "--all", "show_all", is_flag=True, help="Show every run, not only the latest 20 and those still running."
)
@click.option(
    "--engine", metavar="NAME", help="Find the runs that other machines have submitted to the cluster of this engine."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def command(show_all: bool, engine: str | None, as_json: bool) -> None:
    """List runs, newest first.

    TASKS shows how many tasks have succeeded, CAUSE why the latest attempt failed, or what a pending job waits for.
    """
    if why := runs.find_in_cluster(engine):
        print_notes(f"runs of other machines cannot be listed: {why}")
    found = [(info, now) for _, info, now in runs.all_runs()]
    shown = [item for n, item in enumerate(found) if show_all or n < 20 or item[1].state not in FINAL]
    if as_json:
        for info, now in shown:
            click.echo(json.dumps(_facts(info, now)))
    elif not shown:
        click.echo("no runs yet; start one with kedge run JOB.yaml")
    else:
        show(_table(shown))
        for why in sorted({now.unanswered for _, now in shown if now.unanswered}):
            print_notes(f"the state of jobs in the cluster is unknown: {why}")
        if older := len(found) - len(shown):
            click.echo(f"{older} older not shown; see kedge ps --all", err=True)


def _facts(info: RunInfo, now: JobStatus) -> dict[str, object]:
    return {
        "id": info.id,
        "name": info.name,
        "state": now.state,
        "engine": info.engine,
        "created": info.created,
        "ended": now.ended,
        "attempt": now.attempt,
        "tasks": len(now.tasks),
        "succeeded": _succeeded(now),
        "failed": now.failed_tasks,
        "cause": now.cause,
        "text": now.text,
        "pending": now.pending,
        "unanswered": now.unanswered,
        "expected_start": now.expected_start,
        "cluster_job": now.cluster_job,
        "unreachable": sum(task.unreachable is not None for task in now.tasks),
        "held": f"{now.held.role}:{now.held.index}" if now.held else None,
    }


def _table(found: list[tuple[RunInfo, JobStatus]]) -> Table:
    rows = Table("RUN", "STATE", "TASKS", "AGE", "TOOK", "CAUSE", right=("TASKS", "AGE", "TOOK"))
    for info, now in found:
        state = Text(_state(now), style=STATE_COLOURS[now.state])
        age = duration(info.created, None)
        rows.add_row(info.id, state, _tasks(now), age, duration(now.submitted, now.ended), _cause(now))
    return rows


def _state(now: JobStatus) -> str:
    """The state, or something more exact."""
    if now.state == State.WAITING and now.pending is not None:
        return "pending"
    return "held" if now.held is not None and now.state == State.RUNNING else now.state


def _cause(now: JobStatus) -> str:
    """The cause, or `not recognised`, the wording of `kedge show`; why a job in a cluster is pending, or that its state
    there is unknown; which tasks are unreachable."""
    if why := pending(now):
        return why
    if now.unanswered is not None:
        return "state unknown"
    if unreachable := [f"{task.role}:{task.index}" for task in now.tasks if task.unreachable is not None]:
        more = f" and {len(unreachable) - 1} more" if len(unreachable) > 1 else ""
        return f"{unreachable[0]}{more} unreachable"
    return "not recognised" if now.cause == UNKNOWN else one_line(now.cause or "")


def _tasks(now: JobStatus) -> str:
    failed = f", {now.failed_tasks} failed" if succeeded_despite_failures(now) else ""
    return f"{_succeeded(now)}/{len(now.tasks)}{failed}"


def _succeeded(now: JobStatus) -> int:
    return sum(task.state == State.SUCCEEDED for task in now.tasks)
