"""Arguments that several commands on runs share, and their shell completion."""

from __future__ import annotations

from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from kedge.contract import RUNTIME_LOG, STREAMS
from kedge.errors import InputError
from kedge.jobs import runs
from kedge.runs import status


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in runs.run_ids() if name.startswith(incomplete)]


def _complete_task(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Roles, and tasks written as `worker-3`: bash ends words at colons and would complete nothing after `worker:`."""
    try:
        tasks = status.read(runs.find(ctx.params["job"])).tasks
    except InputError:
        return []
    names = [*dict.fromkeys(task.role for task in tasks), *(f"{task.role}-{task.index}" for task in tasks)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_place(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """JOB: and JOB/TASK: for kedge cp, or files of this machine if no run is meant."""
    job, slash, _ = incomplete.partition("/")
    names: list[str] = []
    if slash and job not in ("", ".", "..", "~"):
        with suppress(InputError):
            names = [f"{job}/{task.role}-{task.index}:" for task in status.read(runs.find(job)).tasks]
    elif incomplete:
        names = [name for run in runs.run_ids() for name in (f"{run}:", f"{run}/")]
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


job = click.argument("job", shell_complete=complete_job)
tasks = click.argument("tasks", metavar="[TASK|ROLE]...", nargs=-1, shell_complete=_complete_task)
task = click.argument("task", shell_complete=_complete_task)
detach = click.option("-d", "--detach", is_flag=True, help="Run in the background: print the run id and return.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Show only the summary.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print events and log lines as JSON, one object a line.")
STREAM_NAMES = {"all": STREAMS[0], "stdout": STREAMS[1], "stderr": STREAMS[2], "runtime": RUNTIME_LOG}
