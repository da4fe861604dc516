"""kedge validate: check a job file."""

from __future__ import annotations

import json

import click

from kedge.cli.job_options import job_file
from kedge.cli.view.notes import print_notes
from kedge.cli.view.problems import show_problems
from kedge.errors import ERROR, EXIT_OK, InputError, KedgeError, Problem, Unreachable
from kedge.jobs.preparation import PreparedJob, prepare
from kedge.resolve.model import Inputs

_FORMAT = 1  # version of the JSON output


@click.command()
@job_file
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--json", "as_json", is_flag=True, help="Print all problems as JSON, for editors and CI.")
def command(file: str, inputs: Inputs, strict: bool, as_json: bool) -> int:
    """Check a job file and report every problem at once.

    FILE may be - for stdin. Exit codes: 0 valid, perhaps with warnings; 2 invalid; 4 something that the file names
    cannot be fetched now.
    """
    try:
        prepared = _checked(file, inputs, strict)
    except KedgeError as error:
        if not as_json:
            raise
        problems = error.problems if isinstance(error, InputError | Unreachable) else (str(error),)
        _print([_problem(problem, "<stdin>" if file == "-" else file) for problem in problems])
        return error.exit_code
    if as_json:
        _print(list(prepared.warnings))
        return EXIT_OK
    show_problems(prepared.warnings)
    roles = ", ".join(f"{role.name} ×{role.instances}" for role in prepared.plan.roles)
    click.echo(f"{prepared.job.source.file}: job {prepared.plan.job}: {roles}")
    print_notes(*prepared.plan.notes)
    return EXIT_OK


def _checked(file: str, inputs: Inputs, strict: bool) -> PreparedJob:
    prepared = prepare(file, inputs, places_storages=False)
    if strict and prepared.warnings:
        raise InputError(*(warning._replace(severity=ERROR) for warning in prepared.warnings))
    return prepared


def _problem(problem: Problem | str, file: str) -> Problem:
    """A problem without a position becomes one of the whole file."""
    return problem if isinstance(problem, Problem) else Problem(file, 0, 0, "", problem)


def _print(problems: list[Problem]) -> None:
    document = {"version": _FORMAT, "problems": [problem.to_json() for problem in problems]}
    click.echo(json.dumps(document, indent=2))
