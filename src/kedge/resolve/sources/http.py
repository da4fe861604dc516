"""Fetches documents by HTTP GET, with limits on everything and without credentials."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NamedTuple

import httpx

from kedge import __version__
from kedge.deadlines import within
from kedge.resolve.sources.base import FORBIDDEN, MAX_DOCUMENT_BYTES, NOT_FOUND, UNKNOWN, FetchedDocument, Unavailable
from kedge.resolve.sources.urls import check, plain

_CODES = {401: FORBIDDEN, 403: FORBIDDEN, 404: NOT_FOUND, 410: NOT_FOUND}
# No compression, because a small compressed answer could expand without limit.
_HEADERS = {"User-Agent": f"kedge/{__version__}", "Accept-Encoding": "identity"}


class RequestLimits(NamedTuple):
    """Times in seconds; `total` covers one document with all its redirects. `bytes` limits its size."""

    connect: float = 5.0
    read: float = 10.0
    total: float = 10.0
    redirects: int = 5
    bytes: int = MAX_DOCUMENT_BYTES


DEFAULT_LIMITS = RequestLimits()


class Http:
    """Documents at `http://` and `https://`. `hosts` are the only hosts that may be contacted; None means all."""

    def __init__(self, hosts: Collection[str] | None = None, limits: RequestLimits = DEFAULT_LIMITS) -> None:
        self._hosts = hosts
        self._limits = limits
        times = httpx.Timeout(limits.read, connect=limits.connect)
        self._client = httpx.Client(timeout=times, headers=_HEADERS, follow_redirects=False)

    def fetch(self, place: str) -> FetchedDocument:
        """The document at a URL. Unavailable: wrong status, too large, too slow, or a host that is not allowed."""
        total = self._limits.total
        try:
            url = check(httpx.URL(place))
        except (httpx.InvalidURL, ValueError) as error:
            raise Unavailable(f"{plain(place)} is not a valid address: {error}") from None
        try:
            return within(total, lambda: self._follow(url, time.monotonic() + total))
        except httpx.TimeoutException:
            raise Unavailable(f"{place} does not answer in time", UNKNOWN) from None
        except TimeoutError:
            raise Unavailable(f"{place} takes more than {total:g} s", UNKNOWN) from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OverflowError) as error:
            reason = plain(str(error)) or type(error).__name__
            raise Unavailable(f"{place} cannot be reached: {reason}", UNKNOWN) from None

    def close(self) -> None:
        self._client.close()

    def _follow(self, url: httpx.URL, deadline: float) -> FetchedDocument:
        first = url
        for _ in range(self._limits.redirects + 1):
            self._check_host(url)
            self._client.cookies.clear()
            with self._client.stream("GET", url) as answer:
                if answer.next_request is None:
                    return FetchedDocument(str(first), str(url), self._body(answer, deadline))
                url = self._next(answer, answer.next_request.url)
            if time.monotonic() > deadline:
                raise TimeoutError
        raise Unavailable(f"{first} redirects more than {self._limits.redirects} times", UNKNOWN)

    def _next(self, answer: httpx.Response, target: httpx.URL) -> httpx.URL:
        if target.scheme not in ("http", "https") or (answer.url.scheme, target.scheme) == ("https", "http"):
            raise Unavailable(f"{answer.url} redirects to {target}, which is less secure", UNKNOWN)
        try:
            return check(target.copy_with(username=None, password=None) if target.userinfo else target)
        except httpx.InvalidURL as error:
            message = f"{answer.url} redirects to {target}, which is not a valid address: {error}"
            raise Unavailable(message, UNKNOWN) from None

    def _check_host(self, url: httpx.URL) -> None:
        if self._hosts is not None and url.host not in self._hosts:
            raise Unavailable(f"the host {url.host} is not allowed; allow it with --allow-host {url.host}", FORBIDDEN)

    def _body(self, answer: httpx.Response, deadline: float) -> bytes:
        if answer.status_code != 200:
            code = _CODES.get(answer.status_code, UNKNOWN)
            raise Unavailable(f"{answer.url} answers {answer.status_code} {plain(answer.reason_phrase)}".rstrip(), code)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise Unavailable(f"{answer.url} answers with a content encoding that was not requested", UNKNOWN)
        body = bytearray()
        for part in answer.iter_raw():
            body += part
            if len(body) > self._limits.bytes:
                raise Unavailable(f"{answer.url} is larger than {self._limits.bytes >> 10} KiB", UNKNOWN)
            if time.monotonic() > deadline:
                raise TimeoutError
        return bytes(body)
