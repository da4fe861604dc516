"""kedge plan: show what will run, without starting anything."""

from __future__ import annotations

import importlib
import json
from typing import Any

import click

from kedge.cli.engine_options import engine
from kedge.cli.job_options import job_file
from kedge.cli.view.notes import print_notes, texts
from kedge.cli.view.plan_text import graph_text, plan_text, request_text, task_text
from kedge.cli.view.problems import show_problems
from kedge.cli.view.requirement_graph import svg
from kedge.engines.base import Engine, EngineRequest, Task
from kedge.errors import CannotRun, InputError
from kedge.jobs.engine_choice import EngineChoice, choose
from kedge.jobs.preparation import prepare
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs
from kedge.runs.folder import parse_task


@click.command()
@job_file
@engine
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--graph", type=click.Choice(["tree", "svg"]), help="Show only which role needs which prerequisite.")
@click.option("--requests", "only_requests", is_flag=True, help="Show only what the engine is asked for.")
@click.option("--task", metavar="ROLE:INDEX", help="Show what this one task would receive.")
def command(
    file: str,
    inputs: Inputs,
    choice: EngineChoice,
    as_json: bool,
    graph: str | None,
    only_requests: bool,
    task: str | None,
) -> None:
    """Show what will run: roles, resources, policies, commands. FILE may be - for stdin. Nothing is started."""
    prepared = prepare(file, inputs)
    plan = prepared.plan
    where, decided = choose(choice, prepared)
    wanted = _checked(plan, task) if task else None
    show_problems(prepared.warnings)
    # First: the engine's requests may take seconds.
    print_notes(*decided, *plan.notes, *texts(where.notes(plan), in_summary=False))
    if only_requests:
        _show_requests(where.requests(plan, Task(*wanted) if wanted else None), as_json)
        return
    engine_requests = () if graph else _requests(where, plan, wanted)
    if graph is not None:
        click.echo(svg(plan.requirements) if graph == "svg" else graph_text(plan))
    elif wanted is not None:
        spec = importlib.import_module("kedge.jobs.example").example_spec(plan, *wanted)
        click.echo(_json(spec.to_json(), engine_requests) if as_json else task_text(plan, spec))
    else:
        click.echo(_json(plan.to_json(), engine_requests) if as_json else plan_text(plan))
    for request in () if as_json else engine_requests:
        click.echo(request_text(request))
    _note_what_does_not_fit(plan, where)


def _show_requests(requests: tuple[EngineRequest, ...], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([request._asdict() for request in requests], indent=2))
    for request in () if as_json else requests:
        click.echo(request_text(request))


def _requests(where: Engine, plan: Plan, task: tuple[str, int] | None) -> tuple[EngineRequest, ...]:
    """The engine's requests; none if the job cannot run here, which a note at the end explains."""
    try:
        return where.requests(plan, Task(*task) if task else None)
    except CannotRun:
        return ()


def _json(value: dict[str, Any], requests: tuple[EngineRequest, ...]) -> str:
    return json.dumps(value | ({"requests": [request._asdict() for request in requests]} if requests else {}), indent=2)


def _checked(plan: Plan, task: str) -> tuple[str, int]:
    role, index = parse_task(task)
    counts = {r.name: r.instances for r in plan.roles}
    if index >= counts.get(role, 0):
        known = ", ".join(f"{name}:0 to {name}:{count - 1}" for name, count in counts.items())
        raise InputError(f"the job has no task {role}:{index}; it has {known}")
    return role, index


def _note_what_does_not_fit(plan: Plan, where: Engine) -> None:
    try:
        where.check(plan)
    except CannotRun as error:
        print_notes(f"the job cannot run here: {error}")
