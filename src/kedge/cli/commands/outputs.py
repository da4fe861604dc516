"""kedge outputs: list what the tasks of a run have written for its user."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from kedge.cli import options
from kedge.cli.view.notes import print_notes
from kedge.cli.view.tables import Table, show
from kedge.cli.view.wording import count_text, size_text
from kedge.jobs import runs, task_names
from kedge.runs import copies, outputs
from kedge.runs.folder import Run
from kedge.runs.output_lists import OutputFile
from kedge.runs.outputs import OutputFolder
from kedge.terminal_text import one_line


@click.command()
@options.job
@options.tasks
@click.option("--all-attempts", is_flag=True, help="List the files of every attempt, not only of the last.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a file.")
def command(job: str, tasks: tuple[str, ...], all_attempts: bool, as_json: bool) -> None:
    """List what the tasks of a run have written for its user.

    These are the files in $KEDGE_OUTPUT_DIR of all tasks and in $KEDGE_JOB_DIR, or only those of the given tasks
    (worker:3) and roles. kedge cp copies them. JOB is a run id, a unique prefix of one, or a job name for its newest
    run.
    """
    run = runs.find(job)
    copies.list_outputs(run)
    print_notes(*runs.out_of_date(run))
    wanted = {f"{role}:{index}" for role, index in task_names.find(run, tasks)}
    folders = [f for f in outputs.folders(run, all_attempts=all_attempts) if not tasks or f.task in wanted]
    if as_json:
        for folder in folders:
            for file in outputs.files(run, folder):
                click.echo(json.dumps(_facts(run, folder, file)))
    else:
        _print(run, folders, all_attempts)


def _facts(run: Run, folder: OutputFolder, file: OutputFile) -> dict[str, Any]:
    attempts = {"attempt": folder.attempt, "task_attempt": folder.task_attempt} if folder.task else {}
    whole = f"{run.path}/{folder.path}/{file.path}"
    here = whole if os.path.lexists(whole) else None  # those of a cluster may not be here
    return {"task": folder.task, **attempts, "path": file.path, "size": file.size, "link": file.is_link, "file": here}


def _print(run: Run, folders: list[OutputFolder], all_attempts: bool) -> None:
    found = [(folder, file) for folder in folders for file in outputs.files(run, folder)]
    if not found:
        click.echo("no files", err=True)
        return
    names = ("TASK", *(("ATTEMPT",) if all_attempts else ()), "SIZE", "PATH")
    table = Table(*names, right=("SIZE",))
    for folder, file in found:
        attempt = f"{folder.attempt + 1}.{folder.task_attempt + 1}" if folder.task else ""
        size = "link" if file.is_link else size_text(file.size)
        table.add_row(folder.name, *((attempt,) if all_attempts else ()), size, one_line(file.path))
    show(table)
    total = sum(file.size for _, file in found if not file.is_link)
    click.echo(f"{count_text(len(found), 'file')}, {size_text(total)}", err=True)
