"""kedge schema: print the JSON Schema of a job file."""

from __future__ import annotations

import json

import click

from kedge.spec.schema import schema


@click.command()
def command() -> None:
    """Print the JSON Schema of a job file, for editors."""
    click.echo(json.dumps(schema(), indent=2))
