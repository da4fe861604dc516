"""One connection with TLS that never blocks: messages in and out. Both sides of the link use it."""

from __future__ import annotations

import _ssl
import select

from kedge.light.contextlib import suppress
from kedge.light.types import Any
from kedge.link.frames import FrameReader, LinkFrame

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
_RECORD = 16 << 10  # bytes: TLS has no larger pieces, so a read takes all that was decrypted
_MOST_READ = 16  # records in one turn, so that one connection does not starve the others


class LinkClosed(ConnectionError):
    """The other side has closed the connection."""


class LinkStream:
    """`raw` is the connected, non-blocking socket; `tls` has `do_handshake`, `read` and `write` like ssl.SSLSocket.

    Wait until `fd` is ready for `events`, then call `work`, then `next_frame` until it returns None.
    """

    def __init__(self, raw: Any, tls: Any) -> None:
        self.fd: int = raw.fileno()
        self.secure = False  # after the handshake
        self.deaf = False  # what still comes is not kept
        self._raw, self._tls = raw, tls
        self._reader = FrameReader()
        self._out: list[bytes | memoryview] = []
        self._blocked = 0  # what TLS itself waits for

    @property
    def events(self) -> int:
        """What to wait for."""
        return READ | self._blocked | (WRITE if self._out and self.secure else 0)

    @property
    def idle(self) -> bool:
        """Whether everything is written."""
        return not self._out

    def trust(self) -> None:
        """The other side has proved who it is: accept large messages from now on."""
        self._reader.trust()

    def trust_values(self) -> None:
        """The other side is the controller: accept any JSON in its messages, too."""
        self._reader.trust_values()

    def ignore(self) -> None:
        """What still comes is not kept, and what has come neither."""
        self.deaf = True
        self._reader.clear()

    def send(self, *pieces: bytes) -> None:
        """Queue the bytes of a message, and write at once what the connection takes. Of a connection that is lost,
        `work` tells."""
        waiting = bool(self._out)
        self._out += pieces
        if not waiting and self.secure:
            with suppress(OSError):
                self._write()

    def work(self) -> int:
        """Do what can be done without waiting, and return how many bytes have come. OSError (LinkClosed at the end):
        the connection is of no more use; take out the messages that have come before."""
        self._blocked = 0
        try:
            if not self.secure:
                self._tls.do_handshake()
                self.secure = True
            self._write()
            return self._read()
        except _ssl.SSLWantReadError:
            return 0
        except _ssl.SSLWantWriteError:
            self._blocked = WRITE
            return 0

    def next_frame(self) -> LinkFrame | None:
        """The next complete message. BadFrame: the other side does not speak this protocol."""
        return None if self.deaf else self._reader.next()

    def close(self) -> None:
        """Close the socket."""
        self._out.clear()
        self._raw.close()

    def _write(self) -> None:
        try:
            while self._out:
                data = memoryview(self._out[0])
                # What TLS has begun to write must be offered again unchanged: the queue keeps it until it is taken.
                rest = data[self._tls.write(data[:_RECORD]) :]
                if rest:
                    self._out[0] = rest
                else:
                    del self._out[0]
        except (_ssl.SSLWantReadError, _ssl.SSLWantWriteError):
            pass

    def _read(self) -> int:
        received = 0
        for _ in range(_MOST_READ):
            try:
                data = self._tls.read(_RECORD)
            except _ssl.SSLWantReadError:
                break
            except _ssl.SSLWantWriteError:
                self._blocked = WRITE
                break
            except (_ssl.SSLEOFError, _ssl.SSLZeroReturnError):
                raise LinkClosed("the other side closed the connection") from None
            if not data:
                raise LinkClosed("the other side closed the connection")
            if not self.deaf:
                self._reader.feed(data)
            received += len(data)
        return received
