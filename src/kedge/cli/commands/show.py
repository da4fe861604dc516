"""kedge show: show one run."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import click

from kedge.cli import options
from kedge.cli.view.options_text import print_options
from kedge.cli.view.summary import print_summary
from kedge.jobs import runs
from kedge.runs import report, status
from kedge.runs.folder import Run


@click.command()
@options.job
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the job file with masked secrets, to run it again.")
@click.option("--json", "as_json", is_flag=True, help="Print the status as JSON.")
def command(job: str, as_yaml: bool, as_json: bool) -> None:
    """Show one run: its tasks, verdict and logs.

    JOB is a run id, a unique prefix of one, or a job name for its newest run.
    """
    run = runs.find(job)
    if as_yaml:
        _print_job_file(run.job_bytes())
    elif as_json:
        click.echo(json.dumps(_facts(run), indent=2))
    else:
        print_summary(run, status.read(run))
        print_options(run.info())


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
        "folders": {"run": str(run.path), "code": str(run.code)},
        **asdict(now),
        **{name: explained[name] for name in ("root", "others", "suspects")},
        "tasks": tasks,
    }
