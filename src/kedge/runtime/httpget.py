"""Fetching one file over HTTP, as often as it takes: what is there is kept, and the rest asked for."""

from __future__ import annotations

import email.utils
import http.client
import os
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode
from http.client import HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kedge.runtime import authorities
from kedge.runtime.failed import Failed, Job, of_os_error
from kedge.runtime.files import write_all

_PIECE = 1 << 20
_PROGRESS_SEC = 10.0
_DNS_TRIES = 3
_PASSING = frozenset({408, 425, 429})
_HEADERS = {"User-Agent": "kedge", "Accept": "*/*", "Accept-Encoding": "identity"}


class Limits(NamedTuple):
    """The most bytes that a file may have, None for any number; how long a server may be silent."""

    size: int | None = None
    silence_sec: float = 60.0


class _HTTPSHandler(urllib.request.HTTPSHandler):
    """Reads whom to trust when it is asked for the first time."""

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(http.client.HTTPSConnection, request, context=authorities.context())


class Transfer:
    """One file on its way to `path`. `checked`: its sum will be checked, so that what is there may be completed even
    if the server does not say whether the file is still the same."""

    def __init__(self, uri: str, path: str, limits: Limits, job: Job, checked: bool) -> None:
        self._uri, self._path, self._limits, self._job, self._checked = uri, path, limits, job, checked
        self._same: str | None = None  # the server's name of this version of the file
        self._most = _size(path)
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler, urllib.request.HTTPHandler, _HTTPSHandler,
            urllib.request.HTTPRedirectHandler, urllib.request.HTTPErrorProcessor,
            urllib.request.HTTPDefaultErrorHandler, urllib.request.UnknownHandler,
        ):  # fmt: skip
            self._opener.add_handler(handler())

    def attempt(self) -> None:
        """Fetch what is missing. Failed says why it did not all come."""
        try:
            self._fetch()
        except Failed as failed:
            self._note_progress(failed)
            raise
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error)
        except (http.client.HTTPException, OSError) as error:
            found = of_network_error(shown(self._uri), error)
            self._note_progress(found)
            raise found from error

    def _fetch(self) -> None:
        start = _size(self._path) if self._checked or self._same else 0
        with self._opener.open(self._request(start), timeout=self._limits.silence_sec) as response:
            if response.status != 206 or not (response.headers["Content-Range"] or "").startswith(f"bytes {start}-"):
                start = 0
            self._same = response.headers["ETag"] or response.headers["Last-Modified"]
            if self._same and self._same.startswith("W/"):
                self._same = None
            announced = response.headers["Content-Length"]
            total = start + int(announced) if announced and announced.isdigit() else None
            self._check_room(start, total)
            self._write(response, start, total)

    def _request(self, start: int) -> urllib.request.Request:
        parts = urlsplit(self._uri)
        clean = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
        request = urllib.request.Request(clean, headers=_HEADERS)  # noqa: S310  (only http and https have handlers)
        if start:
            request.add_header("Range", f"bytes={start}-")
            if self._same:
                request.add_header("If-Range", self._same)
        if parts.username is not None:  # not sent to wherever the server redirects
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request.add_unredirected_header("Authorization", f"Basic {b64encode(pair.encode()).decode()}")
        return request

    def _write(self, response: HTTPResponse, start: int, total: int | None) -> None:
        progress = Progress(self._job, os.path.basename(urlsplit(self._uri).path) or shown(self._uri), start, total)
        with open(self._path, "r+b" if start else "wb", buffering=0) as file:
            file.seek(start)
            size = start
            while piece := response.read(_PIECE):
                self._check_size(size + len(piece))
                self._append(file.fileno(), piece)
                size += len(piece)
                progress.reached(size)
        if total is not None and size < total:
            message = f"{shown(self._uri)}: the server ended the connection after {human(size)} of {human(total)}"
            raise Failed(message, "network_transient", transient=True)
        progress.done(size)

    def _append(self, fd: int, piece: bytes) -> None:
        """A full disk is no fault of the network."""
        try:
            write_all(fd, piece)
        except OSError as error:
            raise of_os_error(OSError(error.errno, error.strerror, self._path)) from error

    def _check_room(self, start: int, total: int | None) -> None:
        if total is None:
            return
        self._check_size(total)
        free = shutil.disk_usage(os.path.dirname(self._path)).free
        if total - start > free:
            folder = os.path.dirname(self._path)
            message = f"{shown(self._uri)} has {human(total)}, but {folder} has only {human(free)} free"
            raise Failed(message, "disk_full")

    def _check_size(self, size: int) -> None:
        if self._limits.size is not None and size > self._limits.size:
            message = f"{shown(self._uri)} is larger than its limit of {human(self._limits.size)} (max_bytes)"
            raise Failed(message, "bad_config")

    def _refused(self, error: urllib.error.HTTPError) -> None:
        said = f"{shown(self._uri)}: HTTP Error {error.code}: {error.reason}"
        size = _size(self._path)
        if error.code == 416:  # nothing lies behind what is there
            if size and (error.headers["Content-Range"] or "").endswith(f"*/{size}"):
                return
            os.truncate(self._path, 0)
            raise Failed(said, "network_transient", transient=True)
        if error.code in _PASSING or error.code >= 500:
            raise Failed(said, "network_transient", transient=True, delay_sec=_said(error.headers["Retry-After"]))
        denied = error.code in (401, 403, 407)
        raise Failed(said, "remote_access_denied" if denied else "data_file_missing")

    def _note_progress(self, failed: Failed) -> None:
        size = _size(self._path)
        failed.progressed = failed.transient and size > self._most
        self._most = max(self._most, size)


class Progress:
    """Lines for the log while a file comes, not too many."""

    def __init__(self, job: Job, name: str, start: int, total: int | None) -> None:
        self._job, self._name, self._start, self._total = job, name, start, total
        self._began = self._next = time.monotonic()
        self._next += _PROGRESS_SEC
        if start:
            job.say(f"{name}: goes on after {human(start)}")

    def reached(self, size: int) -> None:
        """So many bytes are there."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PROGRESS_SEC
            share = f"{100 * size // self._total} % of {human(self._total)}" if self._total else human(size)
            self._job.say(f"{self._name}: {share}, {self._speed(size, now)}")

    def done(self, size: int) -> None:
        """That is all."""
        self._job.say(f"{self._name}: {human(size)}, {self._speed(size, time.monotonic())}")

    def _speed(self, size: int, now: float) -> str:
        return f"{human(int((size - self._start) / max(now - self._began, 1e-3)))}/s"


def of_network_error(what: str, error: Exception) -> Failed:
    """From what urllib and http.client raise."""
    reason: Any = error.reason if isinstance(error, urllib.error.URLError) else error
    said = f"{what}: {reason or type(reason).__name__}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Failed(said, "remote_access_denied")
    if isinstance(reason, socket.gaierror):
        return Failed(said, "network_unreachable", transient=True, tries=_DNS_TRIES)
    if isinstance(reason, str | http.client.InvalidURL):  # an address that nobody can open
        return Failed(said, "bad_config")
    if isinstance(reason, OSError) and reason.filename is not None:  # a file of ours
        raise error
    return Failed(said, "network_transient", transient=True)


def shown(uri: str) -> str:
    """An address for messages: without user, password and query, where secrets are."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def human(size: int) -> str:
    """Bytes as people say them: 1.5 GB."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _said(text: str | None) -> float | None:
    """Retry-After in seconds: a number, or a date (RFC 9110)."""
    if text is None:
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None
