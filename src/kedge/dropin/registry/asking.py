"""Requests to registries with their limits: each takes 10 seconds at most, all of a check 60, and servers that are busy
or broken for the moment are asked three times.

The log gets each request and its status. It never gets what a server could use to repeat a secret: phrases after the
status, queries of addresses, and where redirects lead to except for the server's name.
"""

from __future__ import annotations

import os
import time

from kedge.dropin.init_log import InitLog
from kedge.dropin.net import http_addresses, http_client
from kedge.dropin.net.http_addresses import Address
from kedge.dropin.net.http_client import HttpFailed, Response
from kedge.dropin.net.http_wire import Limits
from kedge.light.types import Mapping

REQUEST_SEC = 10.0
CHECK_SEC = 60.0
_MAX_BYTES = 4 << 20  # of an answer; registries accept manifests up to this size
_REDIRECTS = 5
_PAUSES_SEC = (0.5, 1.5)  # before the second and the third request; up to the same time is added by chance
_LONGEST_PAUSE_SEC = 10.0
_PHRASES = {
    200: "OK", 204: "No Content", 301: "Moved Permanently", 302: "Found", 307: "Temporary Redirect", 400: "Bad Request",
    401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 429: "Too Many Requests",
    500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
    504: "Gateway Timeout",
}  # fmt: skip
_NO_HEAD = frozenset({405, 501})


class Doubt(Exception):
    """There is no answer, or one that proves nothing about the image. The message is the reason."""


class Refused(Exception):
    """It is certain that the image cannot be pulled. The message is the reason."""


class Asker:
    """Asks servers over HTTP. The time of all requests together starts when it is made."""

    def __init__(self, log: InitLog, environment: Mapping[str, str], total_sec: float = CHECK_SEC) -> None:
        self._log, self._environment, self._total_sec = log, environment, total_sec
        self._end = time.monotonic() + total_sec

    def within(self, seconds: float) -> Asker:
        """An asker for a part of the time that is left."""
        return Asker(self._log, self._environment, min(seconds, self._seconds_left()))

    def head(self, url: str, headers: Mapping[str, str]) -> Response:
        """The answer to HEAD, or to GET where a server refuses HEAD. Doubt: there is none."""
        response = self.ask("HEAD", url, headers)
        return self.ask("GET", url, headers) if response.status in _NO_HEAD else response

    def ask(self, method: str, url: str, headers: Mapping[str, str]) -> Response:
        """The answer to one request, also to a repeated one if the server is busy. Doubt: there is none."""
        for pause in _PAUSES_SEC:
            response = self._ask_once(method, url, headers)
            if not _is_transient(response.status):
                return response
            self._pause(_retry_after(response, pause * (1 + _chance())))
        return self._ask_once(method, url, headers)

    def _ask_once(self, method: str, url: str, headers: Mapping[str, str]) -> Response:
        limits = Limits(REQUEST_SEC, min(REQUEST_SEC, self._seconds_left()), _MAX_BYTES)
        try:
            response = http_client.request(
                method,
                url,
                headers=headers,
                limits=limits,
                redirects=_REDIRECTS,
                environment=self._environment,
            )
        except HttpFailed as error:
            raise Doubt(str(error)) from None
        self._log.info(f"{method} {_shown(url, response.address)}: {shown_status(response.status)}")
        return response

    def _seconds_left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise Doubt(f"the check has not finished within {self._total_sec:g} seconds")
        return left

    def _pause(self, seconds: float) -> None:
        seconds = min(seconds, self._seconds_left())
        self._log.info(f"asking again in {seconds:.1f} s")
        time.sleep(seconds)


def shown_status(status: int) -> str:
    """A status for messages, with the standard's phrase."""
    return f"{status} {_PHRASES.get(status, '')}".rstrip()


def is_success(response: Response) -> bool:
    """Whether the server has what was asked for."""
    return 200 <= response.status < 300


def _shown(url: str, answered: Address) -> str:
    asked = http_addresses.parse(url)
    return asked.shown if asked.same_server(answered) else f"{asked.shown}, redirected to {answered.authority}"


def _is_transient(status: int) -> bool:
    return status == 429 or (status >= 500 and status not in _NO_HEAD)


def _retry_after(response: Response, otherwise: float) -> float:
    """The pause that the server wants, if it is short; the header may also hold a date, which is ignored."""
    wanted = next(iter(response.values("retry-after")), "")
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 9):
        return otherwise
    return min(float(wanted), _LONGEST_PAUSE_SEC)


def _chance() -> float:
    """A random number from 0 to 1: all tasks of a job ask at the same time, and shall not do so again."""
    return os.urandom(1)[0] / 255
