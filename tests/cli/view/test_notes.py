"""Every note looks alike, whichever command prints it."""

from __future__ import annotations

from pathlib import Path

from kedge.cli.view import notes
from kedge.engines.base import Note

CLI = Path(notes.__file__).parents[1]


def test_notes_of_an_engine_are_shown_at_submission_or_in_the_summary() -> None:
    both = (Note("no image is used"), Note("CPU is not enforced", in_summary=True))
    assert notes.texts(both, in_summary=False) == ("no image is used",)
    assert notes.texts(both, in_summary=True) == ("CPU is not enforced",)


def test_one_function_writes_the_prefix() -> None:
    assert [path.name for path in CLI.rglob("*.py") if '"note: ' in path.read_text()] == ["notes.py"]
