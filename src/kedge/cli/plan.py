"""kedge plan: what will run, before anything does."""

from __future__ import annotations

import json
import sys

import click

from kedge import jobs
from kedge.cli import options
from kedge.cli.graph import svg
from kedge.cli.plan_text import graph_text, plan_text, task_text
from kedge.engines.base import Engine
from kedge.errors import CannotRun, InputError
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs
from kedge.runs.folder import parse_task


@click.command()
@options.job_file
@options.engine
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--graph", type=click.Choice(["tree", "svg"]), help="Show only who needs which prerequisite; as a drawing."
)
@click.option("--task", metavar="ROLE:INDEX", help="Show what this one task would get.")
def command(
    file: str,
    inputs: Inputs,
    where: Engine,
    as_json: bool,
    graph: str | None,
    task: str | None,
) -> None:
    """Show what will run: roles, resources, policies, commands. Starts nothing."""
    plan = jobs.prepare(file, inputs).plan
    if graph is not None:
        click.echo(svg(plan.requirements) if graph == "svg" else graph_text(plan))
    elif task is not None:
        role, index = _checked(plan, task)
        spec = jobs.example_spec(plan, role, index)
        click.echo(json.dumps(spec.to_json(), indent=2) if as_json else task_text(plan, spec))
    elif as_json:
        json.dump(plan.to_json(), sys.stdout, indent=2)
        click.echo()
    else:
        click.echo(plan_text(plan))
    _say_whether_it_fits(plan, where)


def _checked(plan: Plan, task: str) -> tuple[str, int]:
    role, index = parse_task(task)
    counts = {r.name: r.instances for r in plan.roles}
    if index >= counts.get(role, 0):
        known = ", ".join(f"{name}:0 to {name}:{count - 1}" for name, count in counts.items())
        raise InputError(f"the job has no task {role}:{index}; it has {known}")
    return role, index


def _say_whether_it_fits(plan: Plan, where: Engine) -> None:
    for notice in (*plan.notices, *where.notices(plan)):
        click.echo(f"note: {notice}", err=True)
    try:
        where.check(plan)
    except CannotRun as error:
        click.echo(f"note: it cannot run here: {error}", err=True)
