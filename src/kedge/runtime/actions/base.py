"""What actions share: how they fail, how they speak, how they persist."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from kedge.masking import MASKED, SHORTEST_IN_OWN_TEXT
from kedge.runtime.files import NO_SPACE, write_all

T = TypeVar("T")
_MANY_TASKS = 50  # from more on, their starts are spread


class ActionFailed(Exception):
    """An action cannot go on. `cause` as diagnose/ names it; `transient`: it may work another time, at most `tries`
    times in all, after `delay_sec` if the server has said so, counted anew if this try has `progressed`; `code` is the
    exit status of what is not transient."""

    def __init__(
        self,
        message: str,
        cause: str | None = None,
        *,
        transient: bool = False,
        tries: int | None = None,
        delay_sec: float | None = None,
        progressed: bool = False,
        code: int = 1,
    ) -> None:
        super().__init__(message)
        self.cause, self.transient, self.tries, self.code = cause, transient, tries, code
        self.delay_sec, self.progressed = delay_sec, progressed


def of_os_error(error: OSError) -> ActionFailed:
    """From a file that cannot be read or written."""
    cause = "disk_full" if error.errno in NO_SPACE else "permission_denied" if error.errno in (1, 13) else None
    return ActionFailed(f"{error.filename or 'a file'}: {error.strerror or error}", cause)


class ActionJob(NamedTuple):
    """What an action knows of its job: how many tasks it has, TaskSpec.pai, the secrets among the parameters; and the
    descriptor to which its answers to the supervisor go, a line of JSON each."""

    tasks: int
    pai: str
    secrets: tuple[str, ...]
    answers: int

    def clean(self, text: str) -> str:
        """The text without those secrets."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_IN_OWN_TEXT:
                text = text.replace(secret, MASKED)
        return text

    def say(self, text: str) -> None:
        """One or more lines for runtime.log."""
        write_all(1, _encoded(self.clean(text)) + b"\n")

    def answer(self, **facts: Any) -> None:
        """One line for the supervisor; `message` is cleaned."""
        message = _encoded(self.clean(facts["message"])).decode(errors="backslashreplace")
        write_all(self.answers, json.dumps(facts | {"message": message}).encode() + b"\n")


class Patience(NamedTuple):
    """How often and how long to try: full jitter under ceilings of `first_sec`, doubled each time, up to `cap_sec`."""

    tries: int = 10
    first_sec: float = 1.0
    cap_sec: float = 300.0
    spread_sec: float = 10.0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Patience:
        """What the parameter `patience` says, a mapping with some of the fields."""
        return cls(**parameters.get("patience", {}))

    def spread(self, job: ActionJob) -> None:
        """Do not let all tasks of a large job meet a server at once."""
        if job.tasks > _MANY_TASKS:
            job.say(f"starts within {self.spread_sec:g} seconds, because the job has {job.tasks} tasks")
            time.sleep(random.uniform(0, self.spread_sec))  # noqa: S311  (no secret is made of it)

    def persist(self, job: ActionJob, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds or fails for good."""
        done = 0
        while True:
            try:
                return attempt()
            except ActionFailed as failed:
                done = 1 if failed.progressed else done + 1
                most = min(self.tries, failed.tries or self.tries)
                if not failed.transient or done >= most:
                    raise _given_up(failed, done) from failed
                delay = self.delay(done, failed.delay_sec)
                job.say(f"{failed} (try {done} of {most}, the next one in {delay:.1f} seconds)")
                job.answer(message=str(failed), next_try=done + 1, tries=most, delay_sec=round(delay, 3))
                time.sleep(delay)

    def delay(self, done: int, said_sec: float | None) -> float:
        """Seconds before the next try, after so many: at least what the server said."""
        ceiling = min(self.cap_sec, self.first_sec * 2.0 ** (done - 1))
        return min(self.cap_sec, said_sec or 0.0) + random.uniform(0, ceiling)  # noqa: S311


def _given_up(failed: ActionFailed, tries: int) -> ActionFailed:
    said = f"{failed} (given up after {tries} tries)" if tries > 1 else str(failed)
    return ActionFailed(said, failed.cause, transient=failed.transient, delay_sec=failed.delay_sec, code=failed.code)


def required(parameters: Mapping[str, Any], name: str, action: str) -> str:
    """A parameter that must be a text that is not empty."""
    value = parameters.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ActionFailed(f"the action {action} needs the parameter {name!r}", "bad_config")
    return value.strip()


def expand(path: str) -> str:
    """A path as a shell would take it, `~`, variables and symlinks included. ActionFailed for what can be no path."""
    expanded = os.path.expandvars(os.path.expanduser(path))
    try:
        os.fsencode(expanded)
        return os.path.realpath(expanded)
    except ValueError as error:  # NUL, characters that cannot be encoded
        raise ActionFailed(f"{path!r} can be no path: {error}", "bad_config") from error


def _encoded(text: str) -> bytes:
    """Bytes of a file's name that are no text come out as they were, surrogates that stand for nothing as numbers."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")
