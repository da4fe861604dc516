"""Prints errors and warnings for people."""

from __future__ import annotations

from collections.abc import Iterable

import click

from kedge.cli import streams
from kedge.errors import WARNING, Problem

_MOST_IN_BRIEF = 5


def show_problems(problems: Iterable[Problem | str]) -> None:
    """Print each problem to stderr with its line of the file."""
    for problem in problems:
        _show(problem, str(problem))


def show_in_brief(warnings: tuple[Problem, ...]) -> None:
    """Print one line for each of the first warnings only: the output that follows matters more."""
    for warning in warnings[:_MOST_IN_BRIEF]:
        _show(warning, str(warning._replace(excerpt="")))
    if (more := len(warnings) - _MOST_IN_BRIEF) > 0:
        click.echo(f"and {more} more warning{'s' * (more > 1)}; see kedge validate", err=True)


def _show(problem: Problem | str, text: str) -> None:
    is_warning = isinstance(problem, Problem) and problem.severity == WARNING
    head = streams.styled("warning: ", fg="yellow") if is_warning else streams.styled("error: ", fg="red", bold=True)
    first, *rest = text.split("\n")
    click.echo(head + first, err=True)
    for line in rest:  # indented, so that quoted text cannot look like another error
        click.echo(line if line[:1] in ("", " ") else f"  {line}", err=True)
