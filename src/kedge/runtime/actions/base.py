"""Shared by all actions: their failures, their output and their parameters."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from kedge.masking import MASKED, SHORTEST_IN_OWN_TEXT
from kedge.own_files import write_all
from kedge.runtime.files import NO_SPACE
from kedge.runtime.setup import kept_environment


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

    def variables(self) -> Mapping[str, str]:
        """The environment of the task's programs, with what its start hooks have exported so far."""
        kept = kept_environment.read(os.getppid())
        return kept["environment"] if kept else os.environ

    def masked(self, text: str) -> str:
        """The text with the secrets masked."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_IN_OWN_TEXT:
                text = text.replace(secret, MASKED)
        return text

    def log(self, text: str) -> None:
        """Write one or more lines to runtime.log, with secrets masked."""
        write_all(1, _encoded(self.masked(text)) + b"\n")

    def ready(self, address: str | None = None) -> None:
        """A service works, at `address` if it is known; the next hooks of the task start. It may be called again when
        the address becomes known later. OSError if the supervisor is gone."""
        write_all(self.reports, json.dumps({"ready": True, "address": address}).encode() + b"\n")

    def report(self, **facts: Any) -> None:
        """Send one report to the supervisor. Secrets in `message` are masked."""
        message = _encoded(self.masked(facts["message"])).decode(errors="backslashreplace")
        write_all(self.reports, json.dumps(facts | {"message": message}).encode() + b"\n")


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
