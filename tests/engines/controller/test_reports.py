"""Reports of supervisors, from folders in which their tasks may write."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kedge.contract import REPORT_FILE, SUCCEEDED
from kedge.engines.base import Task
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(Task("w", 0), str(tmp_path), 0, 0, 0)


def test_a_report_is_read_as_it_was_written(launch: Launch) -> None:
    written = reports.ended(launch, 0, SUCCEEDED, "done")
    Path(launch.folder, REPORT_FILE).write_text(json.dumps(written._asdict()))
    assert reports.read(launch) == written


def test_a_pipe_in_place_of_a_report_is_none(launch: Launch) -> None:
    os.mkfifo(Path(launch.folder, REPORT_FILE))
    assert reports.read(launch) is None


def test_a_file_without_an_end_is_none(launch: Launch) -> None:
    with Path(launch.folder, REPORT_FILE).open("wb") as file:
        file.truncate(1 << 40)
    assert reports.read(launch) is None
