"""Fetching one file over HTTP in several tries: the part that has arrived is kept, and the rest is requested.

A download is resumed only if the file is certain to be the same: the server has sent a strong ETag or a usable
Last-Modified (If-Range), or the checksum of the whole will be checked. Otherwise it starts over.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import time
import urllib.error
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kedge.own_files import write_all
from kedge.runtime.actions import addresses, http_headers, http_request
from kedge.runtime.actions.addresses import shown
from kedge.runtime.actions.base import ActionFailed, ActionJob, of_os_error
from kedge.runtime.actions.http_headers import InvalidResponse
from kedge.runtime.actions.http_timeouts import Pace, TooSlow
from kedge.runtime.files import remove, write_file

VERSION_SUFFIX = ".version"  # of the file that notes which version of which address a partial file belongs to
_PIECE = 1 << 18
_PROGRESS_SEC = 10.0
_DNS_TRIES = 3
_INVALID_RESPONSE_TRIES = 3
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_HEADERS = {"User-Agent": "kedge", "Accept": "*/*", "Accept-Encoding": "identity"}


class TransferLimits(NamedTuple):
    """The largest size of a file in bytes (None: no limit), and how long a server may be silent. The latter also limits
    the time before the first byte of the body."""

    size: int | None = None
    silence_sec: float = 60.0


class RangePlan(NamedTuple):
    """The bytes that a response brings: from `start` up to but excluding `end`, of `total`; None where not known."""

    start: int
    end: int | None
    total: int | None


class Transfer:
    """The download of one file to `path`. If `checked`, its checksum will be verified, so a partial file may be
    completed even if the server does not show whether the file has changed."""

    def __init__(self, uri: str, path: str, limits: TransferLimits, job: ActionJob, checked: bool) -> None:
        self._target, self._name = addresses.parse(uri), shown(uri)
        self._path, self._limits, self._job, self._checked = path, limits, job, checked
        self._key = hashlib.sha256(uri.encode()).hexdigest()
        self._version = self._noted_version()  # the ETag or Last-Modified of the partial file
        self._total: int | None = None
        self._ranges = True  # whether the server supports requests for a part
        self._largest = _size(path)  # that the file has reached so far

    def attempt(self) -> None:
        """Fetch what is missing. ActionFailed explains why not everything arrived."""
        pace = Pace(self._limits.silence_sec)
        try:
            self._fetch(pace)
        except ActionFailed as failed:
            self._mark_progress(failed)
            raise
        except InvalidResponse as error:
            raise self._invalid_response(str(error)) from error
        except (http.client.HTTPException, OSError) as error:
            failure = of_network_error(self._name, error, self._hint())
            raise self._mark_progress(failure, too_slow=isinstance(error, TooSlow)) from error

    def _fetch(self, pace: Pace) -> None:
        start = _size(self._path) if self._ranges and (self._checked or self._version) else 0
        try:
            headers = {**_HEADERS, **self._range_from(start)}
            response = http_request.get(self._target, headers, self._credentials(), pace)
        except ValueError as error:  # caused by the response: the address was checked before
            raise InvalidResponse(str(error)) from error
        with response:
            if response.status == 416 and start:
                self._check_complete(response, start)
            elif response.status not in (200, 206):
                raise self._bad_status(response)
            else:
                plan = self._plan(response, start)
                self._check_room(plan)
                self._write(response, plan, pace)

    def _range_from(self, start: int) -> dict[str, str]:
        if not start:
            return {}
        return {"Range": f"bytes={start}-"} | ({"If-Range": self._version} if self._version else {})

    def _credentials(self) -> dict[str, str]:
        _, username, password = self._target
        if username is None:
            return {}
        return {"Authorization": f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"}

    def _plan(self, response: HTTPResponse, start: int) -> RangePlan:
        """Which bytes of the file the response contains. InvalidResponse if they do not fit to the partial file."""
        coding = (response.headers["Transfer-Encoding"] or "chunked").strip().lower()
        if coding != "chunked":
            raise InvalidResponse(f"its Transfer-Encoding is {http_headers.quoted(coding)}")
        version = http_headers.validator(response.headers)
        if response.status == 200:
            total = None if response.chunked else http_headers.length(response.headers)
            self._start_over(version, total)
            return RangePlan(0, total, total)
        if not start:
            raise InvalidResponse("it is a part of the file, although the whole was requested")
        self._ranges = False  # unless this response is valid
        part = http_headers.part(response.headers)
        total = self._resumed_total(part, version, start)
        self._ranges = True
        return RangePlan(start, part.end, total)

    def _resumed_total(self, part: http_headers.ByteRange, version: str | None, start: int) -> int:
        """The size of the whole file, from a response that continues the partial file."""
        total = self._total if part.total is None else part.total
        same = (self._total in (None, total)) and (version is None or self._version in (None, version))
        if part.start != start or total is None or not same:
            raise InvalidResponse("the part that it sends does not match the partial file, so the next try starts over")
        self._total = total
        return total

    def _start_over(self, version: str | None, total: int | None) -> None:
        """The response starts with the first byte: forget the older version, and note this one."""
        remove(self._path + VERSION_SUFFIX)
        self._version, self._total = version, total
        if version and not self._checked:
            note = json.dumps({"of": self._key, "version": version, "total": total})
            with open(self._path, "wb"):  # emptied first: the old content must not be taken for the new version
                write_file(self._path + VERSION_SUFFIX, note.encode(), 0o600)

    def _noted_version(self) -> str | None:
        """The version that an earlier process began to fetch, if it was from this address."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            with open(self._path + VERSION_SUFFIX, "rb") as file:
                note = json.loads(file.read(1 << 16))
            return str(note["version"]) if note["of"] == self._key else None
        return None

    def _write(self, response: HTTPResponse, plan: RangePlan, pace: Pace) -> None:
        name = unquote(os.path.basename(urlsplit(self._target.url).path)) or self._name
        progress = DownloadProgress(self._job, addresses.plain(name), plan.start, plan.total)
        with open(self._path, "r+b" if plan.start else "wb", buffering=0) as file:
            size = file.seek(plan.start)
            while piece := _read(response, pace):
                size += len(piece)
                self._check_size(size)
                if plan.end is not None and size > plan.end:
                    raise InvalidResponse("it is longer than its Content-Length or Content-Range")
                self._append(file.fileno(), piece)
                progress.reached(size)
        if plan.total is not None and size < plan.total:
            progress_text = f"{format_size(size)} of {format_size(plan.total)}"
            message = f"{self._name}: the server ended the connection after {progress_text}{self._hint()}"
            raise ActionFailed(message, "network_transient", transient=True)
        progress.done(size)

    def _hint(self) -> str:
        if self._version or self._checked or not _size(self._path):
            return ""
        return "; the next try starts over, because the server sends no ETag and the job has no sha256 to resume it by"

    def _append(self, fd: int, piece: bytes) -> None:
        """Write a piece. Errors of the disk must not be taken for errors of the network."""
        try:
            write_all(fd, piece)
        except OSError as error:
            raise of_os_error(OSError(error.errno, error.strerror, self._path)) from error

    def _check_room(self, plan: RangePlan) -> None:
        if plan.total is None:
            return
        self._check_size(plan.total)
        folder = os.path.dirname(self._path)
        free = shutil.disk_usage(folder).free
        if plan.total - plan.start > free:
            message = f"{self._name} has {format_size(plan.total)}, but {folder} has only {format_size(free)} free"
            raise ActionFailed(message, "disk_full")

    def _check_size(self, size: int) -> None:
        if self._limits.size is not None and size > self._limits.size:
            message = f"{self._name} is larger than its limit of {format_size(self._limits.size)} (max_bytes)"
            raise ActionFailed(message, "bad_config")

    def _check_complete(self, response: HTTPResponse, start: int) -> None:
        """After status 416: either the file is complete, or the partial file is unusable."""
        if http_headers.whole(response.headers) == start:
            return
        os.truncate(self._path, 0)
        raise ActionFailed(
            f"{self._name}: HTTP Error 416: the partial file is not usable", "network_transient", transient=True
        )

    def _bad_status(self, response: HTTPResponse) -> ActionFailed:
        status, reason = response.status, addresses.plain(response.reason)
        message = f"{self._name}: HTTP Error {status}: {reason}".rstrip(": ")
        if status in _TRANSIENT_STATUSES or status >= 500:
            delay = http_headers.wait_sec(response.headers["Retry-After"])
            return ActionFailed(message, "network_transient", transient=True, delay_sec=delay)
        if status < 300:
            return self._invalid_response(f"its status is {status} {reason}, without the file")
        return ActionFailed(message, "remote_access_denied" if status in (401, 403, 407) else "data_file_missing")

    def _invalid_response(self, what: str) -> ActionFailed:
        message = f"{self._name}: the server's response is not valid: {what}"
        return ActionFailed(message, "network_transient", transient=True, tries=_INVALID_RESPONSE_TRIES)

    def _mark_progress(self, failed: ActionFailed, too_slow: bool = False) -> ActionFailed:
        """Record in the failure whether the file has grown. A response that was too slow is no progress."""
        size = _size(self._path)
        failed.progressed = failed.transient and size > self._largest and not too_slow
        self._largest = max(self._largest, size)
        return failed


def _read(response: HTTPResponse, pace: Pace) -> bytes:
    """Read what has arrived so far, so that nothing is lost if the connection breaks."""
    try:
        piece = response.read1(_PIECE)
    except ValueError as error:
        raise InvalidResponse(str(error)) from error
    pace.received(len(piece))
    return piece


class DownloadProgress:
    """Logs the progress of a download every _PROGRESS_SEC seconds."""

    def __init__(self, job: ActionJob, name: str, start: int, total: int | None) -> None:
        self._job, self._name, self._start, self._total = job, name, start, total
        self._began = self._next = time.monotonic()
        self._next += _PROGRESS_SEC
        if start:
            job.log(f"{name}: resuming after {format_size(start)}")

    def reached(self, size: int) -> None:
        """`size` bytes have arrived."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PROGRESS_SEC
            share = f"{100 * size // self._total} % of {format_size(self._total)}" if self._total else format_size(size)
            self._job.log(f"{self._name}: {share}, {self._speed(size, now)}")

    def done(self, size: int) -> None:
        """The file is complete, with `size` bytes."""
        self._job.log(f"{self._name}: {format_size(size)}, {self._speed(size, time.monotonic())}")

    def _speed(self, size: int, now: float) -> str:
        return f"{format_size(int((size - self._start) / max(now - self._began, 1e-3)))}/s"


def of_network_error(what: str, error: Exception, hint: str = "") -> ActionFailed:
    """The failure for an exception of urllib or http.client. An error of a local file is raised again."""
    reason: Any = error.reason if isinstance(error, urllib.error.URLError) else error
    message = f"{what}: {addresses.plain(str(reason)) or type(reason).__name__}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ActionFailed(message, "remote_access_denied")
    if isinstance(reason, socket.gaierror):
        return ActionFailed(message, "network_unreachable", transient=True, tries=_DNS_TRIES)
    if isinstance(reason, str | http.client.InvalidURL):  # an address that cannot be opened
        return ActionFailed(message, "bad_config")
    if isinstance(reason, OSError) and reason.filename is not None:  # a local file
        raise error
    return ActionFailed(message + hint, "network_transient", transient=True)


def format_size(size: int) -> str:
    """A number of bytes with a unit, such as 1.5 GB."""
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
