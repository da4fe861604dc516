"""GET of one framework, and what its failures mean."""

from __future__ import annotations

from kedge.dropin.cluster import framework_status, permissions
from kedge.dropin.cluster.access import ApiServer
from kedge.dropin.cluster.role_statuses import DamagedStatuses
from kedge.dropin.net import http_client
from kedge.dropin.net.http_client import HttpFailed, Response, printable, without_secrets
from kedge.dropin.net.http_wire import Limits
from kedge.light import json
from kedge.light.types import Any, NamedTuple

_TYPE = "apis/frameworkcontroller.microsoft.com/v1"
_REFUSED = {401: "Unauthorized", 403: "Forbidden"}
_NOT_FOUND = 404
_LATER = frozenset({408, 425, 429})
_LARGEST = 64 << 20  # bytes; etcd holds 1.5 MiB
_LONGEST_PAUSE = 3600.0


class FrameworkName(NamedTuple):
    """Which framework."""

    namespace: str
    name: str


class ReadFailed(Exception):
    """The framework was not read. `status` is the server's, None if there was no answer; `advice` is for the user, and
    `pause_sec` is how long the server wants to be left alone."""

    def __init__(
        self, message: str, status: int | None = None, *, advice: str | None = None, pause_sec: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status, self.advice, self.pause_sec = status, advice, pause_sec

    @property
    def not_found(self) -> bool:
        return self.status == _NOT_FOUND

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later by itself."""
        return self.status is None or self.status >= 500 or self.status in _LATER


def get(server: ApiServer, framework: FrameworkName, seconds: float) -> dict[str, Any]:
    """The framework, read within `seconds`, with the statuses of its roles in plain form. ReadFailed."""
    url = f"{server.url}/{_TYPE}/namespaces/{framework.namespace}/frameworks/{framework.name}"
    try:
        headers = {"Accept": "application/json", **server.credentials.headers()}
        limits = Limits(min(10.0, seconds), seconds, _LARGEST)
        response = http_client.request(
            "GET", url, headers=headers, tls=server.tls, limits=limits, environment=server.environment
        )
    except (HttpFailed, ValueError) as error:
        raise ReadFailed(str(error)) from None
    except OSError as error:  # of the token's file
        raise ReadFailed(f"{error.filename}: {error.strerror}") from None
    if response.status != 200:
        raise _failure(response, server, framework)
    return _framework(response)


def _failure(response: Response, server: ApiServer, framework: FrameworkName) -> ReadFailed:
    status, reason = response.status, _reason(response)
    if status in _REFUSED:
        advice = permissions.advice(status, reason, server.credentials, framework.namespace)
        named = _REFUSED[status]
        return ReadFailed(named if reason in (named, "") else f"{named}: {reason}", status, advice=advice)
    if status == _NOT_FOUND:
        where = f"the namespace {framework.namespace} of {without_secrets(server.url)}"
        return ReadFailed(f"there is no framework {framework.name} in {where}: {reason}".rstrip(": "), status)
    if 300 <= status < 400:
        reason = f"{reason}; redirects are not followed, so check the address of the API server"
    return ReadFailed(
        f"{response.address.shown} answers {status} {reason}".rstrip(), status, pause_sec=_pause(response)
    )


def _reason(response: Response) -> str:
    """The message of the server's Status object, or the reason after the status."""
    try:
        message = json.loads(response.body)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = None
    return printable(message) if isinstance(message, str) and message else response.reason


def _pause(response: Response) -> float:
    """The header Retry-After in seconds; its other form, a date, is not used by API servers."""
    value = next(iter(response.values("retry-after")), "")
    return min(float(value), _LONGEST_PAUSE) if value.isascii() and value.isdigit() and len(value) < 9 else 0.0


def _framework(response: Response) -> dict[str, Any]:
    try:
        framework = json.loads(response.body)
    except (ValueError, RecursionError) as error:
        raise ReadFailed(f"{response.address.shown} does not answer with JSON: {error}") from None
    if not isinstance(framework, dict) or framework.get("kind") != "Framework":
        raise ReadFailed(f"{response.address.shown} does not answer with a Framework")
    try:
        return framework_status.decompressed(framework)
    except DamagedStatuses as error:
        raise ReadFailed(f"the framework's {error}") from None
