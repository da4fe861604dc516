"""The values of a diagnosis: what is known about a task, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NONE = "none_success"
UNKNOWN = "unknown"
STOPPED = "stopped_by_kedge"
TRANSIENT = "transient"
PERMANENT = "permanent"
SURE, LIKELY, GUESS = "sure", "likely", "guess"
LOG_TAIL = 10 << 20  # bytes at the end of a log that a diagnosis looks at


class Evidence(NamedTuple):
    """All that is known about one task that ended.

    `logs`: (name, content), the user's first. `exit_code`: the user's (128+n or -n for signal n), None when it is not
    known. `facts`: numbers that rules may ask for, such as `oom_kills`, `shm_free_bytes`, `disk_free_bytes`,
    `ecc_errors`; `run_seconds` and `silent_seconds` (without output, at the end) follow from the times. `stopped_by`:
    why kedge itself stopped the task, if it did. Times are seconds since 1970. `error_file`: the traceback or message
    in torchelastic's error file, if it wrote one. `after_stop`: how many bytes at the end of the first log were written
    after the task was told to stop.
    """

    logs: tuple[tuple[str, bytes], ...]
    exit_code: int | None = None
    facts: Mapping[str, float] = {}
    stopped_by: str | None = None
    started: float | None = None
    ended: float | None = None
    last_output: float | None = None
    error_file: str | None = None
    after_stop: int = 0


class Cause(NamedTuple):
    """What a cause means, who can fix it, whether running again can help, and one to three steps.

    `subject`: patterns that capture in a quoted line what `{subject|…}` in a step stands for."""

    meaning: str
    owner: str
    behaviour: str
    remedy: tuple[str, ...]
    subject: tuple[str, ...] = ()


class Quote(NamedTuple):
    """One line of a log: its file, its number from 1, its text (at most 1,000 characters)."""

    file: str
    line: int
    text: str


class Diagnosis(NamedTuple):
    """Why one task failed. `rank` is as the log writes it, `frame` as in `train.py:88 in step`; both may be empty.

    `lone_symptom`: what is named can only be a consequence; the cause lies elsewhere. `before_stop`: the task said so
    before kedge stopped it, which is how it ended. `time`: when, as the log writes it. `missing`: the peers that took
    no part any more, as far as the log tells: `rank3`. Where the log does not tell: `exit_meaning`, what the exit code
    alone says; `last_words`, the last lines; `unread_bytes` of the log that nobody has looked at.
    """

    cause: str
    behaviour: str
    confidence: str
    owner: str
    meaning: str
    remedy: tuple[str, ...]
    evidence: tuple[Quote, ...] = ()
    symptoms: tuple[str, ...] = ()
    rule: str = ""
    rank: str = ""
    frame: str = ""
    lone_symptom: bool = False
    before_stop: bool = False
    time: str = ""
    missing: tuple[str, ...] = ()
    exit_meaning: str = ""
    last_words: tuple[Quote, ...] = ()
    unread_bytes: int = 0
    exit_code: int | None = None

    @property
    def failed(self) -> bool:
        """Whether anything failed at all."""
        return self.cause != NONE

    def to_json(self) -> dict[str, Any]:
        """The documented keys; `behavior` as in the exit spec."""
        data = self._asdict()
        data["behavior"] = data.pop("behaviour")
        return data | {name: [quote._asdict() for quote in getattr(self, name)] for name in ("evidence", "last_words")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Diagnosis:
        """The inverse of `to_json`."""
        fields = {name: data[name] for name in cls._fields if name in data}
        fields |= {name: tuple(Quote(**quote) for quote in data.get(name, ())) for name in ("evidence", "last_words")}
        fields["behaviour"] = data["behavior"]
        return cls(**fields | {name: tuple(data.get(name, ())) for name in ("remedy", "symptoms", "missing")})
