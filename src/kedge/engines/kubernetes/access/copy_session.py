"""One conversation with `serve-run`: says what is there, and takes what is new."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from kedge.engines.kubernetes.access import copy_rules
from kedge.engines.kubernetes.access.copy_rules import CopyOrder
from kedge.engines.kubernetes.access.local_copy import LocalCopy
from kedge.errors import CannotRun
from kedge.link import frames
from kedge.link.frames import BadFrame, FrameReader, LinkFrame
from kedge.terminal_text import one_line

_AT_ONCE = 200  # known files in a message
_WAIT_SEC = 1.0


class CopyStream(Protocol):
    """The input and output of a `serve-run`."""

    def read(self, timeout_sec: float) -> bytes | None:
        """What has come; None if nothing has within this time; empty at the end. OSError, CannotRun."""
        ...

    def write(self, data: bytes) -> None:
        """OSError, CannotRun."""
        ...

    def close(self) -> None: ...


class CopyLost(CannotRun):
    """The other side is gone."""


class Synced(NamedTuple):
    """All that was asked for has come, as it was a moment ago. `ended`: the job had ended by then; `outputs`: it may
    have some."""

    ended: bool
    outputs: bool


class CopySession:
    """Takes what comes by `stream`. Call `start` once. CannotRun from all: what was taken stays."""

    def __init__(self, stream: CopyStream) -> None:
        self._stream = stream
        self._reader = FrameReader()
        self._reader.trust()
        self._said = self._heard = time.monotonic()
        self._copy: LocalCopy | None = None

    def greeting(self) -> dict[str, Any]:
        """The first message: which copy of the run folder answers, and its run.json under `run`."""
        while True:
            if frame := self._next():
                if frame.kind != copy_rules.COPY:
                    raise CannotRun("what answers is not the run folder")
                return frame.header
            self._wait(copy_rules.SILENCE_SEC)

    def start(self, copy: LocalCopy, order: CopyOrder) -> None:
        """Say what is wanted, and what is in the copy already."""
        name = str(self.greeting().get("copy", ""))
        known = [list(file) for file in copy.known(order)]
        for first in range(0, len(known), _AT_ONCE):
            self._send(copy_rules.KNOWN, files=known[first : first + _AT_ONCE])
        self._send(copy_rules.START, **order._replace(copy=copy.copy)._asdict())
        copy.begin(name)
        self._copy = copy

    def next(self, timeout_sec: float) -> Synced | None:
        """Take what comes until the copy is as its original was a moment ago; None if the time is over before."""
        assert self._copy
        end = time.monotonic() + timeout_sec
        while True:
            while frame := self._next():
                if frame.kind == copy_rules.SYNCED:
                    return Synced(frame.header.get("ended") is True, frame.header.get("outputs") is not False)
                self._take(self._copy, frame)
            if time.monotonic() >= end:
                return None
            self._wait(min(_WAIT_SEC, max(0.0, end - time.monotonic())))

    def close(self) -> None:
        self._stream.close()

    def _take(self, copy: LocalCopy, frame: LinkFrame) -> None:
        try:
            copy.take(frame)
        except KeyError as error:
            raise CannotRun(f"what is sent of the run lacks {error}") from None
        except OSError as error:
            raise CannotRun(f"the copy of the run cannot be written: {error.strerror}: {error.filename}") from None

    def _next(self) -> LinkFrame | None:
        try:
            frame = self._reader.next()
        except BadFrame as error:
            raise CannotRun(f"what answers is not the run folder: {error}") from None
        if frame and frame.kind == copy_rules.FAILED:
            raise CannotRun(f"the run folder cannot be read there: {one_line(str(frame.header.get('text', '')))}")
        return frame

    def _wait(self, timeout_sec: float) -> None:
        """Take what comes, and say now and then that this side is alive."""
        if time.monotonic() > self._said + copy_rules.QUIET_SEC and self._copy:
            with suppress(CannotRun):  # it may have sent all and ended: what it sent is still read
                self._send(copy_rules.ALIVE)
        data = self._stream.read(min(timeout_sec, _WAIT_SEC))
        if data == b"":
            raise CopyLost("the connection to the run has ended")
        if data:
            self._heard = time.monotonic()
            self._reader.feed(data)
        elif time.monotonic() > self._heard + copy_rules.SILENCE_SEC:
            raise CopyLost("the run does not answer any more")

    def _send(self, kind: str, **header: Any) -> None:
        self._said = time.monotonic()
        try:
            self._stream.write(frames.encoded({"kind": kind, **header}))
        except OSError as error:
            raise CopyLost(f"the connection to the run has ended: {error.strerror}") from None
