"""What `kedge stop` says while it waits."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kedge.cli.commands import stop
from kedge.jobs import runs
from kedge.runs.folder import Run


def test_a_kill_that_nobody_answers_says_what_will_happen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    told = threading.Event()

    def tell(*texts: str) -> None:
        said.extend(texts)
        told.set()

    def asks(run: Run, kill: bool) -> tuple[str, ...]:
        assert told.wait(30)
        return ("it was deleted",)

    monkeypatch.setattr(stop, "_QUIET_SEC", 0.01)
    monkeypatch.setattr(stop, "print_notes", tell)
    monkeypatch.setattr(runs, "stop", asks)
    stop._stop(Run(tmp_path), kill=True)
    assert said == [
        "the job's controller has not answered yet; if it does not, the job is ended without it", "it was deleted"
    ]  # fmt: skip
