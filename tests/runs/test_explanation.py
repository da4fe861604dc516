"""The terminal and report.md share one wording."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.runs import explanation, report
from kedge.runs.job_report import AbsentTask, JobReport, LaterFailures, LogQuote, ReportedTask, RootCause
from kedge.states import State

SAID = LogQuote("/r/log", 2, "step 3")
ROOT = RootCause(
    task="w:0", cause="unknown", meaning="not known", remedy=("Read on.",), evidence=(SAID,), last_words=(SAID,),
    exit_code=7, message="the command exited with code 7",
)  # fmt: skip
KNOWN = ROOT._replace(cause="time_limit", meaning="The time is up.", last_words=())


def markdown(root: RootCause, **values: Any) -> str:
    task = ReportedTask("w:0", State.FAILED, 1, 3, 7)
    whole = JobReport("r", State.FAILED, "w:0: it failed", 255, 1, root=root, tasks=(task,))
    return report.markdown(whole._replace(**values))


def test_without_a_cause_the_end_of_the_task_is_shown() -> None:
    text = markdown(ROOT)
    assert "**Root cause**: w:0, not recognised: the command exited with code 7\n" in text
    assert "**Last words**:\n\n    step 3\n\n**Log**: /r/log:2\n" in text
    assert "guess" not in text
    assert "| w:0 | failed | 3 | 7 |" in text


def test_a_task_that_printed_nothing() -> None:
    silent = ROOT._replace(last_words=(), evidence=())
    assert explanation.last_words(silent) == ["none: it printed nothing"]
    assert explanation.place(silent) == ""


@pytest.mark.parametrize(
    ("values", "quote"),
    [
        ({"evidence": (), "message": "killed"}, "killed"),
        ({"evidence": (), "message": "it failed"}, ""),
        ({"evidence": (), "message": "the time is up"}, ""),
        ({"evidence": (), "message": "it failed", "exit_meaning": "the time was up"}, "it failed: the time was up"),
        (
            {"evidence": (LogQuote("f", 1, "[Sun Nov 22] [openpai-runtime] [WARNING] a: not found"),)},
            "a: not found",
        ),
        (
            {"evidence": (LogQuote("f", 1, "/a/user.sh: line 2: x"),), "job_line": "~/j.yaml:9"},
            "~/j.yaml:9: x",
        ),
    ],
    ids=str,
)
def test_the_quoted_line(values: dict[str, Any], quote: str) -> None:
    assert explanation.quote(KNOWN._replace(**values), "w:0: it failed") == quote


def test_last_words_name_lines_of_the_job_file() -> None:
    quote = LogQuote("/r/log", 2, "/a/user.sh: line 2: can't do it")
    root = ROOT._replace(evidence=(quote,), last_words=(quote,), job_line="/j/job.yaml:17")
    assert explanation.last_words(root, lambda path: path.removeprefix("/j/")) == ["job.yaml:17: can't do it"]


def test_a_hook_is_named_once() -> None:
    assert explanation.where(ROOT._replace(frame="hook of h", message="a hook of h exited with code 3")) == []
    assert explanation.where(KNOWN._replace(frame="hook of h")) == ["in hook of h"]


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        ({}, ""),
        ({"stopped": 1}, "1 other task was stopped"),
        ({"stopped": 3}, "3 other tasks were stopped"),
        ({"python_bug": 1}, "1 other task failed: python_bug"),
        ({"unknown": 1}, "1 other task failed: not recognised"),
        ({"python_bug": 2}, "2 other tasks failed: python_bug ×2"),
        ({"python_bug": 1, "stopped": 2}, "3 other tasks failed or were stopped: python_bug ×1, stopped ×2"),
    ],
)
def test_failures_of_other_tasks(kinds: dict[str, int], text: str) -> None:
    others = tuple(LaterFailures(kind, ("w:1",) * count) for kind, count in kinds.items())
    assert explanation.others(others) == text
    assert (f"**After it**: {text}" in markdown(KNOWN, others=others)) == (text != "")


def test_suspects_are_named() -> None:
    assert "**Look at**: w:1: the others waited for it" in markdown(KNOWN, suspects=(AbsentTask("w:1", "silent"),))
