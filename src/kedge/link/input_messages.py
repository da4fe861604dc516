"""The input of a program and the signals for it as messages on one stream, where a connection can neither end a
program's input nor pass signals on: one byte for the kind, four for the length (big endian), and bytes."""

from __future__ import annotations

from kedge.light.types import Iterator

DATA, END, SIGNAL = b"d", b"e", b"s"  # input; its end; the number of a signal, in digits
LARGEST = 1 << 20  # bytes of a message
_HEAD = 5


def encoded(kind: bytes, data: bytes = b"") -> bytes:
    """The bytes of a message."""
    return kind + len(data).to_bytes(4, "big") + data


class InputReader:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The messages that are complete with these bytes: kinds and contents. ValueError: they are none."""
        self._data += data
        while len(self._data) >= _HEAD:
            kind, size = self._data[:1], int.from_bytes(self._data[1:_HEAD], "big")
            if kind not in (DATA, END, SIGNAL) or size > LARGEST:
                raise ValueError("not a message")
            if len(self._data) < _HEAD + size:
                return
            content, self._data = self._data[_HEAD : _HEAD + size], self._data[_HEAD + size :]
            yield kind, content
