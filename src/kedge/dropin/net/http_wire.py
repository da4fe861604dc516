"""Reads an HTTP/1.1 response from a socket, with limits on its time and size.

`http.client` would take four times as long to load as Python takes to start, most of it for e-mail.
"""

from __future__ import annotations

import time

from kedge.light.types import Any, NamedTuple

_HEAD_BYTES = 64 << 10
_INTERIM = 10  # responses 1xx before the final one
_WITHOUT_BODY = frozenset({204, 304})


class Malformed(ValueError):
    """The server does not speak HTTP, or stops in the middle of its answer."""


class Limits(NamedTuple):
    """Seconds for one operation (to connect, to send, to receive some bytes) and for the request as a whole, and bytes
    of the body."""

    operation_sec: float = 10.0
    total_sec: float = 30.0
    body_bytes: int = 16 << 20


class TimeLeft:
    """The time of one request, counted from when this is made."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._end = time.monotonic() + limits.total_sec

    def seconds(self) -> float:
        """How long the next operation may take. TimeoutError if no time is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, self._limits.operation_sec)

    def explain(self) -> str:
        """Which limit a TimeoutError is about."""
        if time.monotonic() < self._end:
            return f"no answer within {self._limits.operation_sec:g} seconds"
        return f"no complete answer within {self._limits.total_sec:g} seconds"


class Head(NamedTuple):
    """Status line and headers; names in lower case, in the order of the response."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        return [value for header, value in self.headers if header == name]


class Wire:
    """Sends to a socket and reads from it, lines and blocks. `connection` is a socket of any kind."""

    def __init__(self, connection: Any, time_left: TimeLeft) -> None:
        self._connection, self._time = connection, time_left
        self._received = bytearray()

    def send(self, data: bytes) -> None:
        self._connection.settimeout(self._time.seconds())
        self._connection.sendall(data)

    def head(self) -> Head:
        """The next status line with its headers, those of interim responses skipped. Malformed."""
        for _ in range(_INTERIM):
            head = _parsed(self._until(b"\n", _HEAD_BYTES), self._header_lines())
            if head.status >= 200:
                return head
        raise Malformed("too many interim responses")

    def body(self, method: str, head: Head, limit: int) -> bytes:
        """The body of a response. Malformed if it is longer than `limit` bytes or incomplete."""
        if method == "HEAD" or head.status in _WITHOUT_BODY:
            return b""
        codings = ",".join(head.values("transfer-encoding")).lower().replace(" ", "")
        if codings == "chunked":
            return self._chunks(limit)
        if codings:
            raise Malformed(f"the transfer encoding {codings[:40]!r} is not supported")
        lengths = set(head.values("content-length"))
        return self._exactly(_length(lengths, limit)) if lengths else self._rest(limit)

    @property
    def has_more(self) -> bool:
        """Whether more has been received than was asked for."""
        return bool(self._received)

    def _header_lines(self) -> list[bytes]:
        lines, size = [], 0
        while line := self._until(b"\n", _HEAD_BYTES - size).rstrip(b"\r\n"):
            size += len(line)
            lines.append(line)
        return lines

    def _chunks(self, limit: int) -> bytes:
        body = bytearray()
        while size := _chunk_size(self._until(b"\n", 1 << 10)):
            _check_size(len(body) + size, limit)
            body += self._exactly(size)
            if self._until(b"\n", 1 << 10).strip():
                raise Malformed("a chunk of the body does not end where it should")
        self._header_lines()  # trailers
        return bytes(body)

    def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            if not self._receive():
                raise Malformed(f"the body ends after {len(self._received)} of {size} bytes")
        return self._taken(size)

    def _rest(self, limit: int) -> bytes:
        _check_size(len(self._received), limit)
        while self._receive():
            _check_size(len(self._received), limit)
        return self._taken(len(self._received))

    def _until(self, end: bytes, limit: int) -> bytes:
        while (at := self._received.find(end)) < 0:
            if len(self._received) > limit:
                break
            if not self._receive():
                raise Malformed("the connection closes before the answer is complete")
        if not 0 <= at <= limit:
            raise Malformed("a line of the answer is too long")
        return self._taken(at + len(end))

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self) -> int:
        """Receive some bytes, and return their number: 0 at the end."""
        self._connection.settimeout(self._time.seconds())
        data = self._connection.recv(64 << 10)
        self._received += data
        return len(data)


def _parsed(first: bytes, lines: list[bytes]) -> Head:
    version, _, rest = first.decode("latin-1").strip().partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or len(code) != 3 or not (code.isascii() and code.isdigit()):
        raise Malformed("the server does not speak HTTP")
    headers: list[tuple[str, str]] = []
    for line in lines:
        text = line.decode("latin-1")
        name, colon, value = text.partition(":")
        if text[0] in " \t" and headers:  # a continued line, as old servers send it
            headers[-1] = (headers[-1][0], f"{headers[-1][1]} {text.strip()}")
        elif colon and name == name.strip():
            headers.append((name.lower(), value.strip()))
        else:
            raise Malformed("a header of the answer is not valid")
    return Head(int(code), reason.strip(), tuple(headers))


def _length(values: set[str], limit: int) -> int:
    value = values.pop()
    if values or not (value.isascii() and value.isdigit() and len(value) < 19):
        raise Malformed("the header Content-Length is not valid")
    _check_size(int(value), limit)
    return int(value)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
        raise Malformed("the size of a chunk is not valid")
    return int(digits, 16)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise Malformed(f"the body is larger than {limit} bytes")
