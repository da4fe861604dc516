"""The report of an ended run, the last value of the chain: how the job and its tasks ended, which task failed first and
why, and what to do. report.json holds it (docs/reports.md).

What is read of a report is checked, because tasks that run without a container can write to the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from kedge import untrusted_values
from kedge.states import State

VERSION = 1
_ALLOWED = {"behavior": ("transient", "permanent", "unknown"), "confidence": ("sure", "likely", "guess")}
_SUSPECT_KINDS = ("silent", "left")
_UNKNOWN = "unknown"  # the cause if none was found
T = TypeVar("T")


class LogQuote(NamedTuple):
    """One line of a log: the path of its file, its number from 1, its text."""

    file: str
    line: int
    text: str


class RootCause(NamedTuple):
    """Why a task failed first: the content of diagnose.model.Diagnosis, with full paths in its quotes.

    `task`: as in `worker:3`; for `kedge diagnose`, the log's path; None if nothing failed. `message`: the runtime's
    description of the task's end. `job_line`: the line of the job file (`job.yaml:12`) that the first quote refers to.
    """

    task: str | None
    cause: str
    confidence: str = "guess"
    owner: str = ""
    meaning: str = ""
    remedy: tuple[str, ...] = ()
    evidence: tuple[LogQuote, ...] = ()
    symptoms: tuple[str, ...] = ()
    rule: str = ""
    rank: str = ""
    frame: str = ""
    lone_symptom: bool = False
    before_stop: bool = False
    time: str = ""
    missing: tuple[str, ...] = ()
    exit_meaning: str = ""
    last_words: tuple[LogQuote, ...] = ()
    unread_bytes: int = 0
    exit_code: int | None = None
    behavior: str = "unknown"
    message: str | None = None
    job_line: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether a cause was found."""
        return self.cause != _UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """The form in which `from_json` reads it back."""
        data: dict[str, Any] = _plain(self)
        return data

    @classmethod
    def of_diagnosis(cls, data: Mapping[str, Any]) -> RootCause:
        """From the JSON of a Diagnosis, and further fields of this class. Checks nothing."""
        made = _made(cls, data)
        return made._replace(evidence=_each(LogQuote, made.evidence), last_words=_each(LogQuote, made.last_words))

    @classmethod
    def from_json(cls, data: Any) -> RootCause:
        """The inverse of `to_json`; ignores other keys. ValueError if a value is missing or of a wrong type."""
        made = cls.of_diagnosis(data)
        allowed = all(getattr(made, name) in values for name, values in _ALLOWED.items())
        if not untrusted_values.fits(made, cls) or not allowed:
            raise ValueError("a value in the root cause is wrong")
        return made


class LaterFailures(NamedTuple):
    """Tasks that failed or were stopped after the root. `kind` is their cause, or `stopped`."""

    kind: str
    tasks: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Its values, and the number of tasks."""
        return {"kind": self.kind, "count": len(self.tasks), "tasks": list(self.tasks)}


class AbsentTask(NamedTuple):
    """A task that others waited for in vain. `kind`: `silent` if it hung, `left` if it had ended with success."""

    task: str
    kind: str


class ReportedTask(NamedTuple):
    """How a task ended. `attempts` counts its launches in the last job attempt, `tries` those in the whole run;
    `exit_code` is that of the user's command, `pai_code` the container's. Times are in the format of events."""

    task: str
    state: State
    attempts: int = 0
    tries: int = 0
    exit_code: int | None = None
    pai_code: int | None = None
    started: str | None = None
    ended: str | None = None
    reason: str | None = None


class JobReport(NamedTuple):
    """How a run ended. `text` describes the end, `code` is its completion code, `attempts` counts job attempts.

    `root` is None unless a task failed; a completion policy may let a job succeed in spite of that. `notes` are what
    else a user should know. Times are in the format of events.
    """

    id: str
    state: State
    text: str | None
    code: int | None
    attempts: int
    submitted: str | None = None
    ended: str | None = None
    root: RootCause | None = None
    others: tuple[LaterFailures, ...] = ()
    suspects: tuple[AbsentTask, ...] = ()
    notes: tuple[str, ...] = ()
    tasks: tuple[ReportedTask, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The content of report.json."""
        return {"version": VERSION, **_plain(self), "others": [one.to_json() for one in self.others]}

    @classmethod
    def from_json(cls, data: Any) -> JobReport:
        """The inverse of `to_json`; ignores other keys. ValueError if a value is missing or of a wrong type."""
        made = _made(cls, data)
        made = made._replace(
            state=State(made.state),
            root=None if made.root is None else RootCause.from_json(made.root),
            others=_each(LaterFailures, made.others),
            suspects=_each(AbsentTask, made.suspects),
            tasks=tuple(task._replace(state=State(task.state)) for task in _each(ReportedTask, made.tasks)),
        )
        if not untrusted_values.fits(made, cls) or any(one.kind not in _SUSPECT_KINDS for one in made.suspects):
            raise ValueError("a value in the report is wrong")
        return made


def _made(kind: type[T], data: Any) -> T:
    """With tuples in place of the lists of JSON."""
    if isinstance(data, dict):
        data = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return untrusted_values.named(kind, data)


def _each(kind: type[T], values: Any) -> tuple[T, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError("a list is expected")
    return tuple(_made(kind, value) for value in values)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(inner) for name, inner in value._asdict().items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value
