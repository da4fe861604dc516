"""kedge cp: copy files out of the folders of a run, or into them."""

from __future__ import annotations

import os

import click

from kedge.cli.options import complete_place
from kedge.cli.stop_requests import StopRequests
from kedge.cli.view.copy_progress import CopyBar
from kedge.cli.view.notes import print_notes
from kedge.cli.view.problems import show_problems
from kedge.cli.view.wording import count_text, size_text
from kedge.errors import EXIT_FAILED, EXIT_OK, InputError
from kedge.jobs import files
from kedge.jobs.files import Selection
from kedge.runs.outputs import FOLDERS
from kedge.runs.transfer import FileTransfer
from kedge.terminal_text import one_line

_MOST_NOTES = 10


@click.command()
@click.argument("source", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_place)
@click.argument("target", metavar="TARGET", shell_complete=complete_place)
@click.option("--attempt", metavar="N[.M]", help="Attempt N of the job, and in it M of the task. Defaults to the last.")
@click.option(
    "--folder",
    type=click.Choice(FOLDERS),
    default=FOLDERS[0],
    show_default=True,
    help="The folder of the task: its output, its copy of the code, or where it starts if it has no code.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only notes and errors.")
def command(source: tuple[str, ...], target: str, attempt: str | None, folder: str, quiet: bool) -> int:
    """Copy files and folders out of a run, or into it.

    \b
    kedge cp JOB/worker-3:model.pt .       from $KEDGE_OUTPUT_DIR of a task
    kedge cp JOB/worker-3: results         all of it
    kedge cp JOB:checkpoint checkpoints    from $KEDGE_JOB_DIR
    kedge cp ./stop.flag JOB/worker-3:     into the folder of a running task

    The run may be active. An existing file is replaced in one step; a copy goes into an existing folder, as with cp -r.
    A local path with a colon is written as ./PATH.
    """
    selection = Selection(attempt, folder)
    if len(source) > 1 and not (files.parse_place(target) or os.path.isdir(target)):
        raise InputError(f"{target}: several sources can be copied only into a folder that exists")
    copies = []
    with StopRequests():  # nothing half-made is left behind by a signal
        for each in source:
            with CopyBar("copying") as bar:
                copies.append(_copy(each, target, selection, bar))
    for copy in copies:
        _report(copy)
    if not quiet:
        files_copied, size = sum(copy.files for copy in copies), sum(copy.bytes for copy in copies)
        click.echo(f"copied {count_text(files_copied, 'file')}, {size_text(size)}", err=True)
    return EXIT_FAILED if any(copy.failures for copy in copies) else EXIT_OK


def _copy(source: str, target: str, selection: Selection, bar: CopyBar) -> FileTransfer:
    from_run, to_run = files.parse_place(source), files.parse_place(target)
    if from_run and to_run:
        raise InputError("files cannot be copied from one run to another: copy them to this machine first")
    if from_run:
        return files.copy_out(from_run, target, selection, bar)
    if to_run:
        return files.copy_in(source, to_run, selection, bar)
    meant = _meant(source, target)
    raise InputError(f"neither {source} nor {target} is a path of a run: write JOB/TASK:PATH or JOB:PATH{meant}")


def _meant(*texts: str) -> str:
    """A suggestion for a place that has no colon, if there is one."""
    for text in texts:
        if files.parse_place(f"{text}:") and not os.path.exists(text):
            return f", for example {text}:"
    return ""


def _report(copy: FileTransfer) -> None:
    shown = [one_line(note) for note in copy.notes[:_MOST_NOTES]]
    if (more := len(copy.notes) - len(shown)) > 0:
        shown.append(f"and {more} more")
    print_notes(*shown)
    show_problems([one_line(failure) for failure in copy.failures[:_MOST_NOTES]])
