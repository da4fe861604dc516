"""The errors of the API server, and of connections to it, as one kind of error of ours."""

from __future__ import annotations

import json
import re
from typing import Any

from kedge.errors import CannotRun
from kedge.terminal_text import one_line

UNREACHABLE = 0  # in place of a status of HTTP
_ANONYMOUS = "system:anonymous"
_USER = re.compile(r'User "([^"]*)" cannot (\S+) resource "([^"]*)"')
_LONGEST = 2000  # characters of what a server says


class ApiError(CannotRun):
    """The API server refused, or was not reached.

    `status` is that of HTTP, or 0 if there was no answer. `reason` is Kubernetes' own, such as AlreadyExists, and
    `server_message` is its message as it came. `causes` are the wrong fields, with what is wrong. `retry_after` are the
    seconds after which the server wants to be asked again.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, server_message: str = "",
        causes: tuple[tuple[str, str], ...] = (), retry_after: float | None = None,
    ) -> None:  # fmt: skip
        self.status, self.reason, self.message = status, reason, message
        self.server_message, self.causes, self.retry_after = server_message or message, causes, retry_after
        super().__init__(message)

    @property
    def unreachable(self) -> bool:
        """Whether there was no answer, or one that says that there may be one later."""
        return self.status == UNREACHABLE or self.status in (429, 500, 502, 503, 504)


class Expired(ApiError):
    """The changes since a resource version are no longer known: list again."""


def unreachable(server: str, why: str) -> ApiError:
    """There was no answer from `server`."""
    return ApiError(UNREACHABLE, "Unreachable", f"the Kubernetes API server {server} cannot be reached: {why}")


def refused(status: int, body: bytes, doing: str, retry_after: str = "") -> ApiError:
    """The error for an answer. `doing` is what was asked, such as `create Pod a in the namespace b`."""
    answer = _status(body)
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    said = one_line(str(answer.get("message") or _plain(body)))[:_LONGEST]
    reason = str(answer.get("reason") or "")
    causes = tuple(
        (str(cause.get("field", "")), one_line(str(cause.get("message", ""))))
        for cause in details.get("causes") or ()
        if isinstance(cause, dict)
    )
    again = str(details.get("retryAfterSeconds") or retry_after)
    seconds = float(again) if again.replace(".", "", 1).isdigit() else None
    kind = Expired if status == 410 else ApiError
    text = _words(status, reason, said, doing)
    return kind(status, reason, text, server_message=said, causes=causes, retry_after=seconds)


def _words(status: int, reason: str, said: str, doing: str) -> str:
    what = f"Kubernetes refused to {doing}"
    denied = _USER.search(said) if status == 403 else None
    if status == 401 or (denied and denied[1] == _ANONYMOUS):
        why = "your certificate or token is not, or no longer, valid" if status == 401 else "you show no credentials"
        do = "Log in again, or correct the user in the kubeconfig file"
        return f"{what}: it does not know you, as {why} ({status}). {do}"
    if denied:
        user, verb, resource = denied.groups()
        return f"{what}: {user} may not {verb} {resource} ({said})"
    if status == 404:
        return f"{what}: it is not there ({said or 'not found'})"
    if status == 429 or status >= 500:
        return f"the Kubernetes API server could not {doing}: {said or 'no reason given'} ({status})"
    return f"{what}: {said or reason or 'no reason given'} ({status})"


def _status(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _plain(body: bytes) -> str:
    """What a proxy on the way says, if it is text and no page."""
    text = body[:_LONGEST].decode(errors="replace").strip()
    return "" if text.startswith("<") else text
