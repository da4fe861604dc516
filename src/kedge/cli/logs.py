"""kedge logs: what the tasks of a run said."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from kedge import jobs
from kedge.cli import options
from kedge.cli.lines import LinePrinter
from kedge.errors import InputError
from kedge.runs import follow as following
from kedge.runs import status
from kedge.runs.folder import Run, TaskFolder, parse_task
from kedge.runs.logs import Lines, whole


@click.command()
@options.job
@options.task
@click.option("-f", "--follow", is_flag=True, help="Go on with what is said from now on, until the run has ended.")
@click.option(
    "--stream", type=click.Choice(list(options.STREAM_NAMES)), default="all", show_default=True, help="Which log."
)
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt of the job, from 1; the last by default.")
def command(job: str, task: str | None, follow: bool, stream: str, attempt: int | None) -> None:
    """Print what tasks have said.

    One TASK (worker:3) byte by byte, or all tasks, each line prefixed with its task. JOB is a run's id, a unique
    beginning of one, or a job's name for its newest run.
    """
    run = jobs.find(job)
    only = _checked(run, task)
    name = options.STREAM_NAMES[stream]
    if follow:
        if attempt is not None:
            raise InputError("--attempt and --follow do not go together: only the running attempt can be followed")
        _follow(run, only, name)
    else:
        _dump(_folders(run, only, attempt), name, prefixed=only is None)


def _checked(run: Run, task: str | None) -> tuple[str, int] | None:
    if task is None:
        return None
    wanted = parse_task(task)
    known = [(t.role, t.index) for t in status.read(run).tasks]
    if wanted not in known:
        roles = ", ".join(
            f"{role} (0 to {max(i for r, i in known if r == role)})" for role in dict.fromkeys(r for r, _ in known)
        )
        raise InputError(f"{run.id} has no task {wanted[0]}:{wanted[1]}; its roles are {roles}")
    return wanted


def _folders(run: Run, only: tuple[str, int] | None, attempt: int | None) -> list[TaskFolder]:
    attempts = run.attempts()
    if not attempts:
        return []
    number = attempts[-1] if attempt is None else attempt - 1
    if number not in attempts:
        raise InputError(f"{run.id} has no attempt {attempt}; it has {len(attempts)}")
    return [t for t in run.tasks(number) if only is None or (t.role, t.task_index) == only]


def _dump(folders: list[TaskFolder], stream: str, prefixed: bool) -> None:
    printer = LinePrinter([f"{t.role}:{t.task_index}" for t in folders])
    for folder in folders:
        chunks = whole(folder.path, stream)
        if prefixed:
            for line in _lines(chunks):
                printer(f"{folder.role}:{folder.task_index}", line)
        else:
            for chunk in chunks:
                sys.stdout.buffer.write(chunk)
    printer.flush()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    lines = Lines()
    for chunk in chunks:
        yield from lines.feed(chunk)
    if rest := lines.rest():
        yield rest


def _follow(run: Run, only: tuple[str, int] | None, stream: str) -> None:
    tasks = [f"{t.role}:{t.index}" for t in status.read(run).tasks]
    printer = LinePrinter(tasks)
    for item in following.follow(run, stream, lambda role, index: only in (None, (role, index))):
        if item is None:
            printer.flush()
        elif isinstance(item, following.LogLine):
            if only:
                sys.stdout.buffer.write(item.line)
            else:
                printer(item.task, item.line)
    printer.flush()
