"""The report of a run: what is written is read back, what is documented is there, and what is no report is refused."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kedge.diagnose.model import Diagnosis
from kedge.runs.job_report import AbsentTask, JobReport, LaterFailures, LogQuote, ReportedTask, RootCause
from kedge.states import State

DOCS = Path(__file__).parents[2] / "docs" / "reports.md"
ROOT = RootCause(
    task="worker:1", cause="nccl_timeout", confidence="likely", owner="peer", meaning="It waited.", remedy=("Look.",),
    evidence=(LogQuote("/run/user-all/current", 7, "timed out"),), symptoms=("broken pipe",), missing=("rank0",),
    exit_code=1, behavior="transient", message="the command exited with code 1", job_line="job.yaml:12",
)  # fmt: skip
REPORT = JobReport(
    id="job-1", state=State.FAILED, text="worker:1 failed", code=255, attempts=2, submitted="s", ended="e", root=ROOT,
    others=(LaterFailures("stopped", ("worker:2", "worker:3")),), suspects=(AbsentTask("worker:0", "silent"),),
    notes=("1 file was lost",),
    tasks=(ReportedTask("worker:1", State.FAILED, 1, 2, 1, 255, "s", "e", "command-failed"),),
)  # fmt: skip


def written() -> Any:
    return json.loads(json.dumps(REPORT.to_json()))


def test_what_is_written_is_read_back() -> None:
    assert JobReport.from_json(written()) == REPORT
    assert JobReport.from_json(written() | {"added": "by a newer version"}) == REPORT
    assert written()["others"] == [{"kind": "stopped", "count": 2, "tasks": ["worker:2", "worker:3"]}]


def test_a_diagnosis_fits_into_its_root() -> None:
    diagnosis = Diagnosis("unknown", "unknown", "guess", "user code", "It is not known.", ("Look.",))
    assert {"task", *diagnosis.to_json(), "message", "job_line"} == set(RootCause._fields)


def test_it_can_be_printed() -> None:
    assert repr(REPORT).startswith(
        "JobReport(id='job-1', state=<State.FAILED: 'failed'>, text='worker:1 failed', code=255"
    )
    assert "root=RootCause(task='worker:1', cause='nccl_timeout'" in repr(REPORT)


def test_it_is_frozen() -> None:
    with pytest.raises(AttributeError):
        REPORT.state = State.SUCCEEDED  # type: ignore[misc]


def test_the_documented_keys_are_those_that_are_written() -> None:
    table = DOCS.read_text().partition("## report.json")[2]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    keys = {name: row[1] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert keys.keys() == written().keys()
    for name, inner in (
        ("root", written()["root"]),
        ("tasks", written()["tasks"][0]),
        ("others", written()["others"][0]),
    ):
        assert set(inner) <= set(re.findall(r"`(\w+)`", keys[name])), name


def test_what_an_older_version_has_not_written_is_left_open() -> None:
    old = written()
    del old["suspects"], old["notes"], old["root"]["owner"], old["tasks"][0]["tries"]
    read = JobReport.from_json(old)
    assert (read.suspects, read.notes, read.root, read.tasks[0].tries) == ((), (), ROOT._replace(owner=""), 0)


HARM: dict[str, Callable[[Any], object]] = {
    "no object": lambda data: [],
    "no state": lambda data: data.pop("state") and data,
    "an unknown state": lambda data: data | {"state": "odd"},
    "a state that is a list": lambda data: data | {"state": []},
    "a text that is a number": lambda data: data | {"text": 3},
    "a root without a cause": lambda data: data["root"].pop("cause") and data,
    "a root that is a list": lambda data: data | {"root": []},
    "an unknown behaviour": lambda data: data["root"].update(behavior="odd") or data,
    "a quote without a line": lambda data: data["root"]["evidence"][0].pop("line") and data,
    "quotes that are an object": lambda data: data["root"].update(evidence={}) or data,
    "an unknown kind of suspect": lambda data: data["suspects"][0].update(kind="odd") or data,
    "tasks that are no list": lambda data: data | {"tasks": 3},
    "an unknown state of a task": lambda data: data["tasks"][0].update(state="odd") or data,
    "a code that is a text": lambda data: data["tasks"][0].update(pai_code="1") or data,
    "notes that are no texts": lambda data: data | {"notes": [1]},
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_what_is_no_report_is_refused(harm: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        JobReport.from_json(harm(copy.deepcopy(written())))
