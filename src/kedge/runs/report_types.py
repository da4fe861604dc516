"""The types of the parts of a report.json that readers use. It is checked because tasks that run without a container
can write to it."""

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


class _RequiredRoot(TypedDict):
    """The keys that every root has."""

    task: str
    cause: str
    behavior: str
    confidence: str
    meaning: str
    frame: str
    remedy: list[str]
    evidence: list[_QuotedLine]
    exit_code: int | None


class _RootTask(_RequiredRoot, total=False):
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


_ALLOWED = {"behavior": ("transient", "permanent", "unknown"), "confidence": ("sure", "likely", "guess")}
_SUSPECT_KINDS = ("silent", "left")


def is_report(value: Any) -> bool:
    """Whether everything that is shown of a report is there and has the right type."""
    if not untrusted.fits(value, _WholeReport):
        return False
    root = value["root"] or {}
    allowed = all(root.get(name, values[0]) in values for name, values in _ALLOWED.items())
    return allowed and all(one["kind"] in _SUSPECT_KINDS for one in value.get("suspects") or ())
