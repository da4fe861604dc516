"""The labelled logs of benchmarks/failure_logs are diagnosed at least as well as when they were last measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kedge.diagnose.model import NONE, PERMANENT, TRANSIENT
from kedge.diagnose.rules.packaged import packaged

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "diagnosis_accuracy.py"
# Of the rows that are certain: at most so many causes and lines are wrong, and so many verdicts wrongly permanent.
MOST_WRONG = {"set-1": (0, 0, 0), "set-2": (0, 0, 1), "set-3": (3, 2, 0)}


@pytest.mark.parametrize("name", MOST_WRONG)
def test_labelled_logs(name: str) -> None:
    spec = importlib.util.spec_from_file_location("diagnosis_accuracy", BENCHMARK)
    assert spec
    assert spec.loader
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    folder, rules = benchmark.LOGS / name, packaged()
    rows = [row for row in benchmark.table(folder / "labels.tsv") if row["confidence"] == "high"]
    answers = [(row, benchmark.answer(row, folder, rules)) for row in rows]
    causes = [row["file"] for row, found in answers if found.cause not in benchmark.accepted(row)]
    lines = [
        row["file"] for row, found in answers if row["root_cause_class"] != NONE and not benchmark.quoted(found, row)
    ]
    permanent = [
        row["file"]
        for row, found in answers
        if found.behaviour == PERMANENT and rules.cause(row["root_cause_class"]).behaviour == TRANSIENT
    ]
    assert len(rows) > 90
    for wrong, most in zip((causes, lines, permanent), MOST_WRONG[name], strict=True):
        assert len(wrong) <= most, wrong
