"""Listing what tasks have written: hostile folders, attempts, totals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kedge.runs import outputs
from kedge.runs.folder import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path / "job-aaaaaa")
    for folder in ("attempt-0/worker-0/output", "attempt-1/worker-0/output/sub", "attempt-1/worker-0.1/output"):
        (made.path / folder).mkdir(parents=True)
        (made.path / folder / "file").write_text(folder)
    made.job_dir.mkdir()
    (made.job_dir / "checkpoint").write_bytes(b"12345")
    return made


def listed(run: Run, **options: bool) -> list[str]:
    found = outputs.folders(run, **options)
    return [f"{folder.path}/{file.path}" for folder in found for file in outputs.files(run, folder)]


def test_the_last_attempt_of_each_task_counts(run: Run) -> None:
    assert listed(run) == ["attempt-1/worker-0.1/output/file", "job-dir/checkpoint"]
    assert listed(run, all_attempts=True) == [
        "attempt-0/worker-0/output/file", "attempt-1/worker-0/output/sub/file", "attempt-1/worker-0.1/output/file",
        "job-dir/checkpoint",
    ]  # fmt: skip


def test_links_are_listed_but_not_followed_and_other_entries_ignored(run: Run) -> None:
    output = run.path / "attempt-1" / "worker-0.1" / "output"
    (output / "etc").symlink_to("/etc")
    os.mkfifo(output / "pipe")
    (output / "empty").mkdir()
    (folder,) = (each for each in outputs.folders(run) if each.task)
    assert [(file.path, file.is_link) for file in outputs.files(run, folder)] == [("etc", True), ("file", False)]
    assert [(each.folder.name, each.files, each.size) for each in outputs.totals(run)] == [
        ("worker:0", 1, 27), ("job", 1, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["attempt-1/worker-0.1/output", "attempt-1/worker-0.1", "attempt-1", "job-dir"])
def test_a_folder_that_a_task_has_replaced_by_a_link_is_empty(run: Run, name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (run.path / name).rename(outside)
    (run.path / name).symlink_to(outside)
    assert not [path for path in listed(run) if path.startswith(name)]


def test_totals_of_very_many_files_are_a_lower_bound(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_MOST_FILES", 3)
    for number in range(5):
        (run.job_dir / f"{number}").touch()
    assert [each.at_least for each in outputs.totals(run)] == [False, True]
