"""kedge rules: list the rules that explain failures, and test rule files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kedge.cli.view.tables import Table, show
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.exit_spec.exitspec import is_exit_spec
from kedge.diagnose.rules import check, rule_files
from kedge.errors import EXIT_FAILED, EXIT_OK
from kedge.jobs.rules import with_usual
from kedge.settings import values


@click.group(invoke_without_command=True)
@click.option(
    "--rules", "files", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Add a rule file."
)
@click.option("--causes", is_flag=True, help="List the causes instead of the rules.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@click.pass_context
def command(ctx: click.Context, files: tuple[Path, ...], causes: bool, as_json: bool) -> None:
    """List the rules that explain failures, or test a rule file."""
    if ctx.invoked_subcommand is not None:
        return
    known = rule_files.load([Path(f) for f in with_usual(tuple(map(str, files)), values.load()) if not is_exit_spec(f)])
    if causes:
        columns = ("cause", "owner", "behavior", "meaning")
        rows = [(n, c.owner, c.behaviour, c.meaning) for n in known.causes() for c in (known.cause(n),)]
    else:
        columns = ("rule", "cause", "role", "rank")
        rows = [(rule.name, rule.cause, rule.role, str(rule.rank)) for rule in known.rules()]
    if as_json:
        for row in rows:
            click.echo(json.dumps(dict(zip(columns, row, strict=True))))
        return
    listed = Table(*(name.upper() for name in columns))
    for row in rows:
        listed.add_row(*row)
    show(listed)


@command.command("test")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def test(files: tuple[Path, ...]) -> int:
    """Run the examples of rule files: every `matches` must match, no `rejects` may match.

    Patterns without a few characters of constant text are rejected, because they would be slow. Exit code 1: an example
    fails; 2: a file is invalid. An OpenPAI exit spec has no examples and is only checked for validity.
    """
    causes = set(rule_files.load(()).causes())
    for file in filter(is_exit_spec, map(str, files)):
        exitspec.load(file)
    wrong = [text for file in files if not is_exit_spec(str(file)) for text in check.failures(file, causes)]
    for text in wrong:
        click.echo(text)
    if not wrong:
        click.echo(f"{', '.join(map(str, files))}: all examples pass")
    return EXIT_FAILED if wrong else EXIT_OK
