"""kedge show: show one run."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from typing import Any

import click

from kedge.cli import options
from kedge.cli.view.answer import rows
from kedge.cli.view.notes import print_notes
from kedge.cli.view.options_text import engine_words, print_limits, print_options, storage_words
from kedge.cli.view.summary import print_summary
from kedge.errors import InputError
from kedge.jobs import runs
from kedge.runs import outputs, report, run_limits, status
from kedge.runs.folder import Run
from kedge.runs.outputs import OutputTotals
from kedge.terminal_text import one_line


@click.command()
@options.job
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the job file with masked secrets and absolute paths.")
@click.option(
    "--export", metavar="DIR", help="Write the job with its code and all other files into a new or empty folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print the status as JSON.")
def command(job: str, as_yaml: bool, export: str | None, as_json: bool) -> None:
    """Show one run: its tasks, verdict and logs.

    JOB is a run id, a unique prefix of one, or a job name for its newest run.
    """
    run = runs.find(job)
    if export is not None:
        _export(run, export)
    elif as_yaml:
        _print_job_file(_job_file(run))
    elif as_json:
        click.echo(json.dumps(_facts(run), indent=2))
    else:
        now = status.read(run)
        print_summary(run, now)
        rows("Cluster", [f"job {one_line(now.cluster_job)}"] if now.cluster_job else [])
        print_options(run.info())
        print_limits(run_limits.read(run))


def _job_file(run: Run) -> bytes:
    """The job file as it runs elsewhere on this machine; as it was stored, if the run has no record."""
    if not run.info().folder:
        return run.job_bytes()
    exporter = importlib.import_module("kedge.jobs.export")
    try:
        found = exporter.stored(run)
    except InputError:  # a part of the record is damaged
        return run.job_bytes()
    secrets = ", ".join(found.options.secrets)
    given = [f"its secrets were not stored; give them with --secret: {secrets}"] if secrets else []
    print_notes(*given, *exporter.missing(found))
    text: str = exporter.text(found)
    return text.encode()


def _export(run: Run, folder: str) -> None:
    exporter = importlib.import_module("kedge.jobs.export")  # slow to load, and `show` seldom exports
    found = exporter.stored(run)
    words = (*engine_words(found.info.engine, found.options.engine), *storage_words(found.options.storages))
    print_notes(*exporter.write(found, folder, words), *exporter.missing(found))
    click.echo(f"{run.id} exported to {folder}; the first lines of {folder.rstrip('/')}/job.yaml show how to run it")


def _print_job_file(content: bytes) -> None:
    """Print the exact bytes, or on a terminal the decoded text."""
    if sys.stdout.isatty():
        click.echo(content.decode("utf-8", "backslashreplace"), nl=False)
    else:
        sys.stdout.buffer.write(content)


def _facts(run: Run) -> dict[str, Any]:
    """The run, its status, root cause and folders (docs/running.md)."""
    info, now, found = run.info(), status.read(run), report.read(run)
    explained = found.to_json() if found else {"root": None, "others": [], "suspects": []}
    tasks = [
        asdict(task) | {"folder": str(run.task(task.role, task.index, now.attempt, max(0, task.attempts - 1)))}
        for task in now.tasks
    ]
    return {
        "version": 1,
        "id": run.id,
        "name": info.name,
        "engine": info.engine,
        "source": info.source,
        "parameters": info.parameters,
        "options": dict(info.options),
        "rerun_of": info.rerun_of,
        "with_job_dir": info.with_job_dir,
        "folders": {"run": str(run.path), "code": str(run.code), "job_dir": str(run.job_dir)},
        "time_limits": _limit_facts(run),
        **asdict(now),
        **{name: explained[name] for name in ("root", "others", "suspects")},
        "tasks": tasks,
        "outputs": [_output_facts(run, found) for found in outputs.totals(run)],
    }


def _limit_facts(run: Run) -> dict[str, Any]:
    found = run_limits.read(run)
    return {"run_sec": found.run_sec, "roles": [role._asdict() for role in found.roles]}


def _output_facts(run: Run, found: OutputTotals) -> dict[str, Any]:
    """The files that a task, or (null) all tasks together, have written into an output folder."""
    folder = str(run.path / found.folder.path)
    return {"task": found.folder.task, "folder": folder, "files": found.files, "size": found.size}
