"""Notes as people see them: what a user should know and need not act on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kedge.cli.streams import styled

if TYPE_CHECKING:
    from kedge.engines.base import Note  # which loads what a diagnosis does not need


def print_notes(*texts: str) -> None:
    """Print each to stderr."""
    for text in texts:
        click.echo(styled("note: ", fg="yellow") + text, err=True)


def texts(notes: Iterable[Note], *, in_summary: bool) -> tuple[str, ...]:
    """Of an engine's notes those for the summary of the run, or those for its submission."""
    return tuple(note.text for note in notes if note.in_summary == in_summary)
