"""kedge rm: delete runs."""

from __future__ import annotations

import os
import stat
import sys

import click

from kedge.cli.options import complete_job
from kedge.cli.view.output_text import total_text
from kedge.cli.view.summary import duration
from kedge.cli.view.tables import Table
from kedge.cli.view.wording import size_text
from kedge.errors import EXIT_FAILED, EXIT_OK
from kedge.file_copies import BLOCK
from kedge.jobs import runs
from kedge.runs import outputs, status
from kedge.runs.folder import Run


@click.command()
@click.argument("job", nargs=-1, required=True, shell_complete=complete_job)
@click.option("-y", "--yes", is_flag=True, help="Do not ask, also on a terminal.")
@click.option(
    "--keep-outputs",
    is_flag=True,
    help="Keep the outputs, the job's folder, and the run in kedge ps; delete its logs and code.",
)
def command(job: tuple[str, ...], yes: bool, keep_outputs: bool) -> int:
    """Delete ended runs with their logs and outputs.

    On a terminal, names what is deleted and asks first. JOB is a run id, a unique prefix of one, or a job name for its
    newest run.
    """
    found = list(dict.fromkeys(runs.find(name) for name in job))
    if not yes and _can_ask() and not _agreed(found, keep_outputs):
        _tell("nothing was deleted")
        return EXIT_FAILED
    for run in found:
        if keep_outputs:
            runs.keep_outputs(run)
            click.echo(f"{run.id} keeps only its outputs: {run.path}")
        else:
            runs.remove(run)
            click.echo(f"{run.id} removed")
    return EXIT_OK


def _can_ask() -> bool:
    """Whether a person can read a question and answer it, although the output may go through a pipe."""
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


def _tell(text: str) -> None:
    """Print to the terminal, whichever of the two it is."""
    click.echo(text, err=not sys.stdout.isatty())


def _agreed(found: list[Run], keep_outputs: bool) -> bool:
    """Show what would be deleted, and ask."""
    rows = Table("RUN", "STATE", "AGE", "OUTPUTS", "TOTAL", right=("AGE", "TOTAL"))
    for run in found:
        runs.refuse_active(run)
        now, written = status.read(run), outputs.totals(run, all_attempts=True)
        age = duration(run.info().created, None)
        rows.add_row(run.id, now.state, age, total_text(written) if written else "none", size_text(_size(run)))
    _tell(str(rows))
    these = "this run" if len(found) == 1 else f"these {len(found)} runs"
    return _confirmed(f"Delete {these}{' except the outputs' if keep_outputs else ''}?")


def _confirmed(question: str) -> bool:
    """Ask. The end of the input (Ctrl-D) means no; after Ctrl-C, click.Abort goes on, for its exit code."""
    try:
        return click.confirm(question, err=not sys.stdout.isatty())
    except click.Abort as abort:
        _tell("")
        if isinstance(abort.__context__, EOFError):
            return False
        _tell("nothing was deleted")
        raise


def _size(run: Run) -> int:
    """The bytes that a run takes on the disk."""
    total = 0
    for folder, folders, files in os.walk(run.path):
        for name in (*folders, *files):
            try:
                info = os.lstat(os.path.join(folder, name))
            except OSError:  # another process deletes it, too
                continue
            total += info.st_blocks * BLOCK if stat.S_ISREG(info.st_mode) else 0
    return total
