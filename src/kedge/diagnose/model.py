"""The values of a diagnosis: the evidence about a task, and the result."""

from __future__ import annotations

from kedge.light.types import Any, Mapping, MappingProxyType, NamedTuple

NONE = "none_success"
UNKNOWN = "unknown"
STOPPED = "stopped_by_kedge"
TIME_LIMIT = "time_limit"
TRANSIENT = "transient"
PERMANENT = "permanent"
SURE, LIKELY, GUESS = "sure", "likely", "guess"
LOG_TAIL = 10 << 20  # bytes at the end of a log that a diagnosis looks at


class Evidence(NamedTuple):
    """All that is known about one task that ended.

    `logs` lists (name, content), the user's log first. `exit_code` is the user's (128+n or -n for signal n), None if it
    is not known. `facts` are numbers that rules can use, such as `oom_kills`, `shm_free_bytes`, `disk_free_bytes`,
    `ecc_errors`; `run_seconds` and `silent_seconds` (the time without output at the end) are derived from the times.
    `stopped_by` is the reason why kedge itself stopped the task, if it did. Times are seconds since 1970. `error_file`
    is the traceback or message in torchelastic's error file, if there is one. `after_stop` is the number of bytes at
    the end of the first log that were written after the task was asked to stop.
    """

    logs: tuple[tuple[str, bytes], ...]
    exit_code: int | None = None
    facts: Mapping[str, float] = MappingProxyType({})
    stopped_by: str | None = None
    started: float | None = None
    ended: float | None = None
    last_output: float | None = None
    error_file: str | None = None
    after_stop: int = 0


class Cause(NamedTuple):
    """What a cause means, who can fix it, whether running again can help, and one to three steps to take.

    `subject` lists patterns; what they capture in a quoted line replaces `{subject|…}` in a step."""

    meaning: str
    owner: str
    behaviour: str
    remedy: tuple[str, ...]
    subject: tuple[str, ...] = ()


class Quote(NamedTuple):
    """One line of a log: its file, its number counted from 1, its text (at most 1,000 characters)."""

    file: str
    line: int
    text: str


class Diagnosis(NamedTuple):
    """Why one task failed. `rank` is spelled as in the log, `frame` is for example `train.py:88 in step`; both may be
    empty.

    `lone_symptom`: the cause named can only be a consequence; the real cause lies elsewhere. `before_stop`: the task
    reported the failure before kedge stopped it. `time` is the time of the failure as in the log. `missing` lists the
    peers that no longer took part according to the log, such as `rank3`. If the log does not show the cause,
    `exit_meaning` explains the exit code, `last_words` are the last lines, and `unread_bytes` is how much of the log
    was not read.
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
        """Whether the task failed at all."""
        return self.cause != NONE

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form; `behavior` is spelled as in the exit spec."""
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
