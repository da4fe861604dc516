"""Errors as the API server answers them: HTTP status and a Status object."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict",
    410: "Expired", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests",
    500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class FakeRefusal(Exception):
    """`code` is the HTTP status; `reason` is Kubernetes' own word for it. `retry_after` is in seconds."""

    def __init__(self, code: int, message: str, reason: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.reason = code, message, reason or _REASONS.get(code, "")
        self.retry_after = retry_after

    def status(self) -> Json:
        """The Status object that is sent."""
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        }  # fmt: skip


def not_found(resource: str, name: str) -> FakeRefusal:
    """`resource` as `pods` or `jobs.batch`."""
    return FakeRefusal(404, f'{resource} "{name}" not found')


def conflict(resource: str, name: str) -> FakeRefusal:
    """The object is another one than the writer had read."""
    return FakeRefusal(
        409,
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; please apply your '
        "changes to the latest version and try again",
    )


def invalid(kind: str, name: str, problem: str) -> FakeRefusal:
    """`problem` as `metadata.name: Invalid value: …`."""
    return FakeRefusal(422, f'{kind} "{name}" is invalid: {problem}')
