"""The terminal and report.md share one wording."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.runs import explanation, report

ROOT: dict[str, Any] = {
    "task": "w:0", "cause": "unknown", "behavior": "unknown", "confidence": "guess", "meaning": "not known",
    "remedy": ["Read on."], "evidence": [{"file": "/r/log", "line": 2, "text": "step 3"}], "frame": "", "missing": [],
    "exit_meaning": "", "last_words": [{"file": "/r/log", "line": 2, "text": "step 3"}], "unread_bytes": 0,
    "exit_code": 7, "message": "the command exited with code 7", "job_line": None,
}  # fmt: skip
KNOWN = ROOT | {"cause": "time_limit", "meaning": "The time is up.", "last_words": []}


def markdown(root: dict[str, Any], **keys: Any) -> str:
    task = {"task": "w:0", "state": "failed", "attempts": 1, "tries": 3, "exit_code": 7}
    whole = {"id": "r", "state": "failed", "text": "w:0: it failed", "root": root, "others": [], "tasks": [task]}
    return report.markdown(whole | keys)


def test_without_a_cause_the_end_of_the_task_is_shown() -> None:
    text = markdown(ROOT)
    assert "**Root cause**: w:0, not recognised: the command exited with code 7\n" in text
    assert "**Last words**:\n\n    step 3\n\n**Log**: /r/log:2\n" in text
    assert "guess" not in text
    assert "| w:0 | failed | 3 | 7 |" in text


def test_a_task_that_printed_nothing() -> None:
    silent = ROOT | {"last_words": [], "evidence": []}
    assert explanation.last_words(silent) == ["none: it printed nothing"]
    assert explanation.place(silent) == ""


@pytest.mark.parametrize(
    ("keys", "quote"),
    [
        ({"evidence": [], "message": "killed"}, "killed"),
        ({"evidence": [], "message": "it failed"}, ""),
        ({"evidence": [], "message": "it failed", "exit_meaning": "the time was up"}, "it failed: the time was up"),
        (
            {"evidence": [{"file": "f", "line": 1, "text": "[Sun Nov 22] [openpai-runtime] [WARNING] a: not found"}]},
            "a: not found",
        ),
        (
            {"evidence": [{"file": "f", "line": 1, "text": "/a/user.sh: line 2: x"}], "job_line": "~/j.yaml:9"},
            "~/j.yaml:9: x",
        ),
    ],
    ids=str,
)
def test_the_quoted_line(keys: dict[str, Any], quote: str) -> None:
    assert explanation.quote(KNOWN | keys, "w:0: it failed") == quote


def test_last_words_name_lines_of_the_job_file() -> None:
    quote = {"file": "/r/log", "line": 2, "text": "/a/user.sh: line 2: can't do it"}
    root = ROOT | {"evidence": [quote], "last_words": [quote], "job_line": "/j/job.yaml:17"}
    assert explanation.last_words(root, lambda path: path.removeprefix("/j/")) == ["job.yaml:17: can't do it"]


def test_a_hook_is_named_once() -> None:
    assert explanation.where(ROOT | {"frame": "hook of h", "message": "a hook of h exited with code 3"}) == []
    assert explanation.where(KNOWN | {"frame": "hook of h"}) == ["in hook of h"]


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
    assert explanation.others({"others": [{"kind": kind, "count": count} for kind, count in kinds.items()]}) == text
    assert (f"**After it**: {text}" in markdown(KNOWN, others=[{"kind": k, "count": c} for k, c in kinds.items()])) == (
        text != ""
    )


def test_suspects_are_named() -> None:
    assert "**Look at**: w:1: the others waited for it" in markdown(KNOWN, suspects=[{"task": "w:1", "kind": "silent"}])
