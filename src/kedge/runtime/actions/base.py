"""Shared by all actions: their failures, their output and their retries."""

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
_MANY_TASKS = 50  # with more tasks than this, their starts are spread over time


class ActionFailed(Exception):
    """An action cannot go on. `cause` is a name from diagnose/. A `transient` failure is worth another try: `tries`
    limits the number of tries, which starts over if this try has `progressed`; `delay_sec` is the pause that the server
    asked for. `code` is the exit status if the failure is not transient."""

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
    """The failure for a file that cannot be read or written."""
    cause = "disk_full" if error.errno in NO_SPACE else "permission_denied" if error.errno in (1, 13) else None
    return ActionFailed(f"{error.filename or 'a file'}: {error.strerror or error}", cause)


class ActionJob(NamedTuple):
    """What an action gets to know about its job: the number of tasks, TaskSpec.pai, and the secrets in the parameters.
    `reports` is the descriptor for reports to the supervisor, one line of JSON each."""

    tasks: int
    pai: str
    secrets: tuple[str, ...]
    reports: int

    def masked(self, text: str) -> str:
        """The text with the secrets masked."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_IN_OWN_TEXT:
                text = text.replace(secret, MASKED)
        return text

    def log(self, text: str) -> None:
        """Write one or more lines to runtime.log, with secrets masked."""
        write_all(1, _encoded(self.masked(text)) + b"\n")

    def report(self, **facts: Any) -> None:
        """Send one report to the supervisor. Secrets in `message` are masked."""
        message = _encoded(self.masked(facts["message"])).decode(errors="backslashreplace")
        write_all(self.reports, json.dumps(facts | {"message": message}).encode() + b"\n")


class Patience(NamedTuple):
    """How often to try, and the pauses between tries: exponential back-off with full jitter. The ceiling of the random
    pause is `first_sec`, doubled after each try up to `cap_sec`. `spread_sec` spreads the starts of many tasks."""

    tries: int = 10
    first_sec: float = 1.0
    cap_sec: float = 300.0
    spread_sec: float = 10.0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Patience:
        """Read the parameter `patience`, a mapping with some of the fields."""
        return cls(**parameters.get("patience", {}))

    def spread(self, job: ActionJob) -> None:
        """Wait a random time, so that the tasks of a large job do not all call a server at once."""
        if job.tasks > _MANY_TASKS:
            job.log(f"waits up to {self.spread_sec:g} seconds before it starts, because the job has {job.tasks} tasks")
            time.sleep(random.uniform(0, self.spread_sec))  # noqa: S311  (not used for a secret)

    def retry(self, job: ActionJob, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds, fails permanently or no tries are left."""
        done = 0
        while True:
            try:
                return attempt()
            except ActionFailed as failed:
                done = 1 if failed.progressed else done + 1
                tries = min(self.tries, failed.tries or self.tries)
                if not failed.transient or done >= tries:
                    raise _given_up(failed, done) from failed
                delay = self.delay(done, failed.delay_sec)
                job.log(f"{failed} (try {done} of {tries}, the next one in {delay:.1f} seconds)")
                job.report(message=str(failed), next_try=done + 1, tries=tries, delay_sec=round(delay, 3))
                time.sleep(delay)

    def delay(self, done: int, server_delay_sec: float | None) -> float:
        """Seconds before the next try, after `done` tries: at least what the server asked for, within `cap_sec`."""
        ceiling = min(self.cap_sec, self.first_sec * 2.0 ** (done - 1))
        return min(self.cap_sec, server_delay_sec or 0.0) + random.uniform(0, ceiling)  # noqa: S311


def _given_up(failed: ActionFailed, tries: int) -> ActionFailed:
    message = f"{failed} (given up after {tries} tries)" if tries > 1 else str(failed)
    return ActionFailed(message, failed.cause, transient=failed.transient, delay_sec=failed.delay_sec, code=failed.code)


def required(parameters: Mapping[str, Any], name: str, action: str) -> str:
    """The value of a parameter that must be a non-empty string. ActionFailed if it is not."""
    value = parameters.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ActionFailed(f"the action {action} requires the parameter {name!r}", "bad_config")
    return value.strip()


def expand(path: str) -> str:
    """Expand `~`, variables and symlinks in a path. ActionFailed if it is not a valid path."""
    expanded = os.path.expandvars(os.path.expanduser(path))
    try:
        os.fsencode(expanded)
        return os.path.realpath(expanded)
    except ValueError as error:  # a NUL, or characters that cannot be encoded
        raise ActionFailed(f"{path!r} is not a valid path: {error}", "bad_config") from error


def _encoded(text: str) -> bytes:
    """Encode text. Undecodable bytes of file names are restored; other surrogates are written as escapes."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")
