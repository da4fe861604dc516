"""The types of what readers use of a report.json: tasks can write to it where no container keeps them from it."""

from __future__ import annotations

from typing import Any, TypedDict

from kedge import untrusted


class _Quote(TypedDict):
    file: str
    line: int
    text: str


class _Other(TypedDict):
    kind: str
    count: int


class _Suspect(TypedDict):
    task: str
    kind: str


class _Task(TypedDict):
    task: str
    pai_code: int | None


class _Told(TypedDict):
    """What every root has."""

    task: str
    cause: str
    behavior: str
    confidence: str
    meaning: str
    frame: str
    remedy: list[str]
    evidence: list[_Quote]
    exit_code: int | None


class _Root(_Told, total=False):
    message: str | None
    exit_meaning: str
    job_line: str | None
    missing: list[str]
    last_words: list[_Quote]
    unread_bytes: int


class _Report(TypedDict):
    state: str
    text: str | None
    root: _Root | None
    others: list[_Other]
    tasks: list[_Task]


class _WholeReport(_Report, total=False):
    suspects: list[_Suspect] | None
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
