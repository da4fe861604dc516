"""Notes as people see them: what a user should know and need not act on."""

from __future__ import annotations

from collections.abc import Iterable

import click

from kedge.cli.streams import styled
from kedge.engines.base import Note


def print_notes(*texts: str) -> None:
    """Print each to stderr."""
    for text in texts:
        click.echo(styled("note: ", fg="yellow") + text, err=True)


def texts(notes: Iterable[Note], *, in_summary: bool) -> tuple[str, ...]:
    """Of an engine's notes those for the summary of the run, or those for its submission."""
    return tuple(note.text for note in notes if note.in_summary == in_summary)
