"""Reports of supervisors, from folders in which their tasks may write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.contract import COMMAND_FAILED, REPORT_FILE, RUNTIME_BROKE, RUNTIME_ERROR, SUCCEEDED
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Evidence
from kedge.engines.base import Task
from kedge.engines.controller import reports
from kedge.engines.controller.reports import Launch


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(Task("w", 0), str(tmp_path), 0, 0, 0)


def test_a_report_is_read_as_it_was_written(launch: Launch) -> None:
    found = json.loads(json.dumps(classify(Evidence((("user-all", b"MemoryError\n"),), 1)).to_json()))
    written = reports.ended(launch, 255, COMMAND_FAILED, "no")._replace(diagnosis=found, removed_bytes={"user-all": 7})
    Path(launch.folder, REPORT_FILE).write_text(json.dumps(written._asdict()))
    assert reports.read(launch) == written


def test_a_pipe_in_place_of_a_report_is_none(launch: Launch) -> None:
    os.mkfifo(Path(launch.folder, REPORT_FILE))
    assert reports.read(launch) is None


def test_a_file_without_an_end_is_none(launch: Launch) -> None:
    with Path(launch.folder, REPORT_FILE).open("wb") as file:
        file.truncate(1 << 40)
    assert reports.read(launch) is None


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("exit_code", "3"),
        ("exit_code", True),
        ("message", ["no"]),
        ("ended", "then"),
        ("ended", "2026-02-01T02:54:48"),
        ("stopped_by", 15),
        ("removed_bytes", {"user-all": "many"}),
        ("diagnosis", [1]),
        ("diagnosis", {"cause": "unknown"}),
        ("diagnosis.behavior", "never"),
        ("diagnosis.meaning", None),
        ("diagnosis.evidence", [{"file": "a", "line": "1", "text": "x"}]),
        ("diagnosis.remedy", [["do it"]]),
    ],
)
def test_a_report_with_a_wrong_type_is_none(launch: Launch, part: str, value: object) -> None:
    report = reports.ended(launch, 255, COMMAND_FAILED, "no")._asdict()
    report["diagnosis"] = classify(Evidence((), 1)).to_json()
    *outer, name = part.split(".")
    inner = report[outer[0]] if outer else report
    assert name in inner
    inner[name] = value
    Path(launch.folder, REPORT_FILE).write_text(json.dumps(report))
    assert reports.read(launch) is None


@pytest.mark.parametrize(
    "content", ["", "{", "3", "[]", '"exit_code"', "{}", "null", "[" * 100_000, "\0", '{"task": NaN}']
)
def test_what_is_no_report_is_none(launch: Launch, content: str) -> None:
    Path(launch.folder, REPORT_FILE).write_text(content)
    assert reports.read(launch) is None


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, Path.touch, lambda path: path.symlink_to("/dev/zero")])
def test_with_a_damaged_report_the_exit_code_decides(launch: Launch, make: Callable[[Path], None]) -> None:
    make(Path(launch.folder, REPORT_FILE))
    assert reports.read(launch) is None
    said = [reports.of_end(launch, code, "it broke") for code in (0, 139, RUNTIME_BROKE)]
    assert [report.exit_code for report in said] == [0, 139, RUNTIME_BROKE]
    assert [report.reason for report in said] == [SUCCEEDED, COMMAND_FAILED, RUNTIME_ERROR]
    assert "report.json is damaged" in said[0].message


def test_without_a_report_the_supervisor_is_broken(launch: Launch) -> None:
    report = reports.of_end(launch, 0, "it broke")
    assert (report.exit_code, report.reason, report.message) == (RUNTIME_BROKE, RUNTIME_ERROR, "it broke")


def test_a_task_that_never_started_has_no_folder(launch: Launch) -> None:
    missing = launch._replace(folder=str(Path(launch.folder, "attempt-0", "worker-0")))
    assert reports.of_end(missing, 2, "it broke").message == "it broke"


def test_what_no_terminal_or_file_takes_is_replaced(launch: Launch) -> None:
    report = reports.ended(launch, 255, COMMAND_FAILED, "no \udcff")._asdict()
    Path(launch.folder, REPORT_FILE).write_text(json.dumps(report))
    found = reports.read(launch)
    assert found is not None
    assert found.message == "no ?"
