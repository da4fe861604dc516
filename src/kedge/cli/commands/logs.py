"""kedge logs: print the logs of a run's tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import click

from kedge.cli import options
from kedge.cli.view.log_lines import LinePrinter
from kedge.errors import InputError
from kedge.jobs import runs
from kedge.runs import follow as following
from kedge.runs import status
from kedge.runs.folder import Run, TaskFolder, parse_task
from kedge.runs.logs import LineCutter, whole


@click.command()
@options.job
@options.task
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until the run ends.")
@click.option(
    "--stream", type=click.Choice(list(options.STREAM_NAMES)), default="all", show_default=True, help="Which log."
)
@click.option("--raw", is_flag=True, help="Print the exact bytes, even to a terminal, which they may then control.")
@click.option("--attempt", type=click.IntRange(min=1), help="Which job attempt, from 1. Defaults to the last.")
def command(job: str, task: str | None, follow: bool, stream: str, raw: bool, attempt: int | None) -> None:
    """Print the logs of tasks.

    Prints one TASK (worker:3), or all tasks with each line prefixed by its task. JOB is a run id, a unique prefix of
    one, or a job name for its newest run. Control characters other than colours are shown as text; the log of one TASK
    is written unchanged to a file or pipe.
    """
    run = runs.find(job)
    only = _checked(run, task)
    name = options.STREAM_NAMES[stream]
    if follow:
        if attempt is not None:
            raise InputError("--attempt cannot be combined with --follow: only the running attempt can be followed")
        _follow(run, only, name, raw)
    else:
        _dump(_folders(run, only, attempt), name, prefixed=only is None, raw=raw)


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


def _dump(folders: list[TaskFolder], stream: str, prefixed: bool, raw: bool) -> None:
    write = _writer([f"{t.role}:{t.task_index}" for t in folders], prefixed, raw)
    for folder in folders:
        chunks = whole(folder.path, stream)
        for line in _lines(chunks) if isinstance(write, LinePrinter) else chunks:
            write(f"{folder.role}:{folder.task_index}", line)
    sys.stdout.buffer.flush()


def _writer(tasks: list[str], prefixed: bool, raw: bool) -> Callable[[str, bytes], object]:
    """The function that prints a line of a task. Without prefixes, a file or a pipe gets the exact bytes."""
    if prefixed or (sys.stdout.isatty() and not raw):
        return LinePrinter(tasks, raw, prefixed)
    return lambda task, line: sys.stdout.buffer.write(line)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    lines = LineCutter()
    for chunk in chunks:
        yield from lines.feed(chunk)
    if rest := lines.rest():
        yield rest


def _follow(run: Run, only: tuple[str, int] | None, stream: str, raw: bool) -> None:
    tasks = [f"{t.role}:{t.index}" for t in status.read(run).tasks]
    write = _writer(tasks, only is None, raw)
    for item in following.follow(run, stream, lambda role, index: only in (None, (role, index))):
        if item is None:
            sys.stdout.buffer.flush()
        elif isinstance(item, following.TaskLine):
            write(item.task, item.line)
    sys.stdout.buffer.flush()
