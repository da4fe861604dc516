"""kedge logs: print the logs of a run's tasks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import click

from kedge.cli import options
from kedge.cli.times import LineTimes, point_in_time
from kedge.cli.view.cluster_text import pending
from kedge.cli.view.log_lines import LinePrinter, print_lines_as_json, print_message
from kedge.cli.view.notes import print_notes
from kedge.cli.view.wording import event_text
from kedge.contract import timestamp
from kedge.errors import InputError
from kedge.jobs import runs, task_names
from kedge.runs import follow as following
from kedge.runs import status
from kedge.runs.folder import Run, is_task
from kedge.runs.job_events import JobEvent
from kedge.runs.task_logs import ALL_LINES, NO_LOGS, LineRange, SelectedLogs, merged, selected, sources, to_follow
from kedge.runs.timed_log import LogSource, TaskLines

Wanted = Callable[[str, int], bool]
Write = Callable[[TaskLines], object]
_NAMED = 3  # tasks in a note


@click.command()
@options.job
@options.tasks
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until the run ends.")
@click.option(
    "--stream", type=click.Choice(list(options.STREAM_NAMES)), default="all", show_default=True, help="Which log."
)
@click.option("-t", "--timestamps", is_flag=True, help="Begin each line with the time at which it was printed.")
@click.option(
    "--since",
    callback=point_in_time,
    metavar="TIME",
    help="Only lines printed at TIME (10m ago, 14:30 or 2026-02-01T14:30) or later.",
)
@click.option("--until", callback=point_in_time, metavar="TIME", help="Only lines printed before TIME.")
@click.option(
    "-n",
    "--tail",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the last N lines, of all tasks together.",
)
@click.option("--raw", is_flag=True, help="Print the exact bytes, even to a terminal, which they may then control.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as a JSON object.")
@click.option("--attempt", type=click.IntRange(min=1), help="Which job attempt, from 1. Defaults to the last.")
def command(
    job: str, tasks: tuple[str, ...], follow: bool, stream: str, timestamps: bool, since: int | None,
    until: int | None, tail: int | None, raw: bool, as_json: bool, attempt: int | None,
) -> None:  # fmt: skip
    """Print the logs of tasks.

    Prints the given tasks (worker:3) and roles (worker), or all tasks, merged by time, each line prefixed by its task.
    JOB is a run id, a unique prefix of one, or a job name for its newest run. Control characters other than colours are
    shown as text; the log of a single TASK has no prefixes and is written unchanged to a file or pipe.
    """
    run = runs.find(job, logs=not follow)
    print_notes(*runs.out_of_date(run))
    wanted = _wanted(run, tasks)
    if run.only_outputs.exists():
        print_notes("the logs of this run were deleted (kedge rm --keep-outputs)")
    now = status.read(run)
    if why := pending(now):
        print_notes(f"{run.id} is pending: {why}")
    elif now.unanswered:
        print_notes(f"the state of {run.id} in the cluster is unknown: {now.unanswered}")
    lines = LineRange(since, until, tail)
    write: Write = partial(print_lines_as_json, stream=stream)
    if not as_json:
        write = _writer(_labels(run, wanted), not _is_one_task(tasks), raw, timestamps)
    name = options.STREAM_NAMES[stream]
    if follow:
        if attempt is not None:
            raise InputError("--attempt cannot be combined with --follow: only the running attempt can be followed")
        if until is not None:
            raise InputError("--until cannot be combined with --follow, which ends with the run")
        _follow(run, wanted, name, lines, write)
    else:
        found = [source for source in _sources(run, attempt) if wanted(source.role, source.task_index)]
        _print(selected(run, found, name, lines), write, timestamps or as_json)


def _is_one_task(names: tuple[str, ...]) -> bool:
    return len(names) == 1 and is_task(names[0])


def _wanted(run: Run, names: tuple[str, ...]) -> Wanted:
    """Whether a task has one of these names or one of these roles. Without names, all are wanted."""
    found = task_names.find(run, names)
    return lambda role, index: not names or (role, index) in found


def _sources(run: Run, attempt: int | None) -> list[LogSource]:
    """The task attempts of a job attempt, counted from 1; by default of the last."""
    attempts = run.attempts()
    if not attempts:
        return []
    number = attempts[-1] if attempt is None else attempt - 1
    if number not in attempts:
        raise InputError(f"{run.id} has no attempt {attempt}; it has {len(attempts)}")
    return sources(run, number)


def _labels(run: Run, wanted: Wanted) -> list[str]:
    tasks = [LogSource(task.role, task.index, 0) for task in status.read(run).tasks]
    return [task.label for task in tasks if wanted(task.role, task.task_index)]


def _writer(labels: list[str], prefixed: bool, raw: bool, timestamps: bool) -> Write:
    """The function that prints lines. Without prefixes and times, a file or a pipe gets the exact bytes."""
    on_terminal = sys.stdout.isatty()
    if prefixed or timestamps or (on_terminal and not raw):
        exact = raw or not (prefixed or on_terminal)
        return LinePrinter(labels, exact, prefixed, LineTimes() if timestamps else None)
    return lambda lines: sys.stdout.buffer.write(lines.data)


def _print(logs: SelectedLogs, write: Write, timed: bool) -> None:
    _note_untimed(logs.untimed)
    for lines in merged(logs, timed=timed):
        write(lines)
    sys.stdout.flush()


def _follow(run: Run, wanted: Wanted, stream: str, lines: LineRange, write: Write) -> None:
    began = timestamp(time.time_ns())
    begin = to_follow(run, wanted, stream, lines) if lines != ALL_LINES else NO_LOGS
    _note_untimed(begin.untimed)
    for item in following.follow(run, stream, wanted, begin=begin):
        if item is None:
            sys.stdout.flush()
        elif isinstance(item, TaskLines):
            write(item)
        elif item["event"] == JobEvent.JOB_RETRYING and item.get("time", "") > began and (text := event_text(item)):
            sys.stdout.flush()
            print_message(text)
    sys.stdout.flush()


def _note_untimed(untimed: tuple[LogSource, ...]) -> None:
    if untimed:
        names = ", ".join(source.label for source in untimed[:_NAMED])
        more = f" and {len(untimed) - _NAMED} more" if len(untimed) > _NAMED else ""
        print_notes(f"the lines of {names}{more} are left out, because their times were not recorded")
