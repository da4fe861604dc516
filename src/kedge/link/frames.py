"""A message on the wire: the length of its header and of its body (4 bytes each, big endian), the header (a JSON object
in which `kind` is a text), and the body (bytes)."""

from __future__ import annotations

from kedge import untrusted
from kedge.light import json
from kedge.light.types import Any, Callable, NamedTuple

FIRST_HEADER_LIMIT = 64 << 10  # bytes, before the other side has proved who it is; and no body
HEADER_LIMIT = 16 << 20
BODY_LIMIT = 1 << 20
_LENGTHS = 8  # bytes


class BadFrame(ValueError):
    """The other side does not speak this protocol, or a message is too large; the text says which."""


class LinkFrame(NamedTuple):
    """One message. `kind` is that of the header."""

    kind: str
    header: dict[str, Any]
    body: bytes = b""


class SharedValue:
    """A value in the headers of many messages, which is written as JSON once, and of which they all keep one copy."""

    def __init__(self, value: Any) -> None:
        self.text: bytes = value.text if isinstance(value, SharedValue) else json.dumps(value).encode()


def encoded(header: dict[str, Any], body: bytes = b"") -> bytes:
    """The bytes of a message; the header holds its `kind`. BadFrame if it is larger than the other side accepts."""
    text = json.dumps(header).encode()
    return _lengths(len(text), len(body)) + text + body


def encoded_pieces(header: dict[str, Any], body: bytes = b"") -> list[bytes]:
    """The same in pieces; values in the header may be SharedValues."""
    text = json.dumps({name: value for name, value in header.items() if not isinstance(value, SharedValue)}).encode()
    pieces = [text]
    for name, value in header.items():
        if isinstance(value, SharedValue):
            pieces[-1] = pieces[-1].removesuffix(b"}") + f", {json.dumps(name)}: ".encode()
            pieces += [value.text, b"}"]
    pieces[0] = _lengths(sum(map(len, pieces)), len(body)) + pieces[0]
    pieces[-1] += body
    return pieces


def _lengths(header: int, body: int) -> bytes:
    _check(header, body, HEADER_LIMIT, BODY_LIMIT)
    return header.to_bytes(4, "big") + body.to_bytes(4, "big")


class FrameReader:
    """Cuts a stream of bytes into messages. It keeps at most one message and what has come with it."""

    def __init__(self) -> None:
        self._header_limit, self._body_limit = FIRST_HEADER_LIMIT, 0
        self._parse: Callable[[bytes], Any] = untrusted.parse
        self._data = bytearray()
        self._start = 0

    def trust(self) -> None:
        """The other side has proved who it is: accept large messages from now on."""
        self._header_limit, self._body_limit = HEADER_LIMIT, BODY_LIMIT

    def trust_values(self) -> None:
        """The other side is the controller: accept any JSON as well. What a user has written may hold numbers of any
        length, and lists in lists of any depth."""
        self.trust()
        self._parse = json.loads

    def clear(self) -> None:
        """Forget what has come."""
        self._data, self._start = bytearray(), 0

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream. Take the messages out before more is fed."""
        self._data += data

    def next(self) -> LinkFrame | None:
        """The next complete message. BadFrame as soon as it cannot be one."""
        start, have = self._start, len(self._data) - self._start
        if have < _LENGTHS:
            self._drop_taken()
            return None
        header = int.from_bytes(self._data[start : start + 4], "big")
        body = int.from_bytes(self._data[start + 4 : start + _LENGTHS], "big")
        _check(header, body, self._header_limit, self._body_limit)
        if have < _LENGTHS + header + body:
            self._drop_taken()
            return None
        middle = start + _LENGTHS + header
        self._start = middle + body
        value = _header(self._parse, bytes(self._data[start + _LENGTHS : middle]))
        with memoryview(self._data) as view:  # a slice of it is no copy
            return LinkFrame(value["kind"], value, bytes(view[middle : self._start]))

    def _drop_taken(self) -> None:
        """An idle reader keeps no memory."""
        if self._start:
            self._data = self._data[self._start :]
            self._start = 0


def _check(header: int, body: int, header_limit: int, body_limit: int) -> None:
    if header > header_limit:
        raise BadFrame(f"a message has a header of {header} bytes; the limit is {header_limit}")
    if body > body_limit:
        raise BadFrame(f"a message has a body of {body} bytes; the limit is {body_limit}")


def _header(parse: Callable[[bytes], Any], data: bytes) -> dict[str, Any]:
    try:
        value = parse(data)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"a message has a header that is not JSON: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise BadFrame("a message has a header without a kind")
    return value
