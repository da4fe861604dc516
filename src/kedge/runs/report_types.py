"""The types of what readers use of a report.json: tasks can write to it where no container keeps them from it."""

from __future__ import annotations

from typing import Any, TypedDict

from kedge import untrusted


class _QuotedLine(TypedDict):
    file: str
    line: int
    text: str


class _OtherTasks(TypedDict):
    kind: str
    count: int


class _SuspectedTask(TypedDict):
    task: str
    kind: str


class _TaskRow(TypedDict):
    task: str
    pai_code: int | None


class _KnownOfRoot(TypedDict):
    """What every root has."""

    task: str
    cause: str
    behavior: str
    confidence: str
    meaning: str
    frame: str
    remedy: list[str]
    evidence: list[_QuotedLine]
    exit_code: int | None


class _RootTask(_KnownOfRoot, total=False):
    message: str | None
    exit_meaning: str
    job_line: str | None
    missing: list[str]
    last_words: list[_QuotedLine]
    unread_bytes: int


class _ShortReport(TypedDict):
    state: str
    text: str | None
    root: _RootTask | None
    others: list[_OtherTasks]
    tasks: list[_TaskRow]


class _WholeReport(_ShortReport, total=False):
    suspects: list[_SuspectedTask] | None
    notes: list[str]


_WORDS = {"behavior": ("transient", "permanent", "unknown"), "confidence": ("sure", "likely", "guess")}
_KINDS = ("silent", "left")  # of suspects


def is_report(value: Any) -> bool:
    """Whether all that is shown of a report is there, and of the right type."""
    if not untrusted.fits(value, _WholeReport):
        return False
    root = value["root"] or {}
    known = all(root.get(name, words[0]) in words for name, words in _WORDS.items())
    return known and all(one["kind"] in _KINDS for one in value.get("suspects") or ())
