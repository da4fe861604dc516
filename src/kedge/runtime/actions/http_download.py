"""Fetching one file over HTTP, as often as it takes: what is there is kept, and the rest asked for.

A file goes on where it ended only if it is sure to be still the same: the server has given a strong ETag or a usable
Last-Modified (If-Range), or the sum of the whole will be checked. Otherwise it begins anew.
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

from kedge.runtime.actions import addresses, http_headers, http_request
from kedge.runtime.actions.addresses import shown
from kedge.runtime.actions.base import ActionFailed, ActionJob, of_os_error
from kedge.runtime.actions.http_headers import Nonsense
from kedge.runtime.actions.http_timeouts import Pace, TooSlow
from kedge.runtime.files import remove, write_all, write_file

NOTE = ".version"  # behind the name of a file: of which version of which address it is the beginning
_PIECE = 1 << 18
_PROGRESS_SEC = 10.0
_DNS_TRIES = 3
_NONSENSE_TRIES = 3
_PASSING = frozenset({408, 425, 429})
_HEADERS = {"User-Agent": "kedge", "Accept": "*/*", "Accept-Encoding": "identity"}


class TransferLimits(NamedTuple):
    """The most bytes that a file may have, None for any number; how long a server may be silent, which is also the
    limit for all that is before the first byte."""

    size: int | None = None
    silence_sec: float = 60.0


class RangePlan(NamedTuple):
    """What an answer brings: bytes from `start` to before `end`, of `total`; None where that is not known."""

    start: int
    end: int | None
    total: int | None


class Transfer:
    """One file on its way to `path`. `checked`: its sum will be checked, so that what is there may be completed even
    if the server does not say whether the file is still the same."""

    def __init__(self, uri: str, path: str, limits: TransferLimits, job: ActionJob, checked: bool) -> None:
        self._target, self._name = addresses.parse(uri), shown(uri)
        self._path, self._limits, self._job, self._checked = path, limits, job, checked
        self._key = hashlib.sha256(uri.encode()).hexdigest()
        self._same = self._noted()  # the server's name of this version of the file
        self._total: int | None = None
        self._ranges = True  # whether the server can be asked for a part
        self._most = _size(path)

    def attempt(self) -> None:
        """Fetch what is missing. ActionFailed says why it did not all come."""
        pace = Pace(self._limits.silence_sec)
        try:
            self._fetch(pace)
        except ActionFailed as failed:
            self._progressed(failed)
            raise
        except Nonsense as error:
            raise self._nonsense(str(error)) from error
        except (http.client.HTTPException, OSError) as error:
            found = of_network_error(self._name, error, self._hint())
            raise self._progressed(found, but=isinstance(error, TooSlow)) from error

    def _fetch(self, pace: Pace) -> None:
        start = _size(self._path) if self._ranges and (self._checked or self._same) else 0
        try:
            response = http_request.ask(self._target, {**_HEADERS, **self._part_from(start)}, self._credentials(), pace)
        except ValueError as error:  # the address was looked at before: it is what the server said
            raise Nonsense(str(error)) from error
        with response:
            if response.status == 416 and start:
                self._nothing_behind(response, start)
            elif response.status not in (200, 206):
                raise self._refused(response)
            else:
                plan = self._plan(response, start)
                self._check_room(plan)
                self._write(response, plan, pace)

    def _part_from(self, start: int) -> dict[str, str]:
        if not start:
            return {}
        return {"Range": f"bytes={start}-"} | ({"If-Range": self._same} if self._same else {})

    def _credentials(self) -> dict[str, str]:
        _, username, password = self._target
        if username is None:
            return {}
        return {"Authorization": f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"}

    def _plan(self, response: HTTPResponse, start: int) -> RangePlan:
        """Where the answer belongs. Nonsense if it fits nowhere."""
        coding = (response.headers["Transfer-Encoding"] or "chunked").strip().lower()
        if coding != "chunked":
            raise Nonsense(f"its Transfer-Encoding is {http_headers.quoted(coding)}")
        version = http_headers.validator(response.headers)
        if response.status == 200:
            total = None if response.chunked else http_headers.length(response.headers)
            self._begin(version, total)
            return RangePlan(0, total, total)
        if not start:
            raise Nonsense("it sends a part of the file that was not asked for")
        self._ranges = False  # unless this one is as it should be
        part = http_headers.part(response.headers)
        total = self._continued(part, version, start)
        self._ranges = True
        return RangePlan(start, part.end, total)

    def _continued(self, part: http_headers.ByteRange, version: str | None, start: int) -> int:
        """The size of the whole, from an answer that fits to what is there."""
        total = self._total if part.total is None else part.total
        same = (self._total in (None, total)) and (version is None or self._same in (None, version))
        if part.start != start or total is None or not same:
            raise Nonsense("the part that it sends does not match what is there, so the next try begins anew")
        self._total = total
        return total

    def _begin(self, version: str | None, total: int | None) -> None:
        """A first byte will come. What is noted of an older version must not survive it."""
        remove(self._path + NOTE)
        self._same, self._total = version, total
        if version and not self._checked:
            note = json.dumps({"of": self._key, "version": version, "total": total})
            with open(self._path, "wb"):  # the old content must not be taken for the new version
                write_file(self._path + NOTE, note.encode(), 0o600)

    def _noted(self) -> str | None:
        """The version that an earlier process has begun with, if it is of this address."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            with open(self._path + NOTE, "rb") as file:
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
                    raise Nonsense("it sends more than it has announced")
                self._append(file.fileno(), piece)
                progress.reached(size)
        if plan.total is not None and size < plan.total:
            message = f"{self._name}: the server ended the connection after {human(size)} of {human(plan.total)}"
            raise ActionFailed(message + self._hint(), "network_transient", transient=True)
        progress.done(size)

    def _hint(self) -> str:
        if self._same or self._checked or not _size(self._path):
            return ""
        return "; it begins anew, because the server gives no ETag and the job no sha256 by which it could go on"

    def _append(self, fd: int, piece: bytes) -> None:
        """A full disk is no fault of the network."""
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
            message = f"{self._name} has {human(plan.total)}, but {folder} has only {human(free)} free"
            raise ActionFailed(message, "disk_full")

    def _check_size(self, size: int) -> None:
        if self._limits.size is not None and size > self._limits.size:
            message = f"{self._name} is larger than its limit of {human(self._limits.size)} (max_bytes)"
            raise ActionFailed(message, "bad_config")

    def _nothing_behind(self, response: HTTPResponse, start: int) -> None:
        """An answer 416: all is there, or what is there is of no use."""
        if http_headers.whole(response.headers) == start:
            return
        os.truncate(self._path, 0)
        raise ActionFailed(
            f"{self._name}: HTTP Error 416: what is there is of no use", "network_transient", transient=True
        )

    def _refused(self, response: HTTPResponse) -> ActionFailed:
        status, reason = response.status, addresses.plain(response.reason)
        said = f"{self._name}: HTTP Error {status}: {reason}".rstrip(": ")
        if status in _PASSING or status >= 500:
            delay = http_headers.wait_sec(response.headers["Retry-After"])
            return ActionFailed(said, "network_transient", transient=True, delay_sec=delay)
        if status < 300:
            return self._nonsense(f"it answers {status} {reason} and not with the file")
        return ActionFailed(said, "remote_access_denied" if status in (401, 403, 407) else "data_file_missing")

    def _nonsense(self, what: str) -> ActionFailed:
        """Worth few tries."""
        message = f"{self._name}: the server's answer cannot be used: {what}"
        return ActionFailed(message, "network_transient", transient=True, tries=_NONSENSE_TRIES)

    def _progressed(self, failed: ActionFailed, but: bool = False) -> ActionFailed:
        size = _size(self._path)
        failed.progressed = failed.transient and size > self._most and not but
        self._most = max(self._most, size)
        return failed


def _read(response: HTTPResponse, pace: Pace) -> bytes:
    """What has come, as soon as it is there: nothing of it is lost if the connection breaks."""
    try:
        piece = response.read1(_PIECE)
    except ValueError as error:
        raise Nonsense(str(error)) from error
    pace.received(len(piece))
    return piece


class DownloadProgress:
    """Lines for the log while a file comes, not too many."""

    def __init__(self, job: ActionJob, name: str, start: int, total: int | None) -> None:
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


def of_network_error(what: str, error: Exception, hint: str = "") -> ActionFailed:
    """From what urllib and http.client raise."""
    reason: Any = error.reason if isinstance(error, urllib.error.URLError) else error
    said = f"{what}: {addresses.plain(str(reason)) or type(reason).__name__}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ActionFailed(said, "remote_access_denied")
    if isinstance(reason, socket.gaierror):
        return ActionFailed(said, "network_unreachable", transient=True, tries=_DNS_TRIES)
    if isinstance(reason, str | http.client.InvalidURL):  # an address that nobody can open
        return ActionFailed(said, "bad_config")
    if isinstance(reason, OSError) and reason.filename is not None:  # a file of ours
        raise error
    return ActionFailed(said + hint, "network_transient", transient=True)


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
