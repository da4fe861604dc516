"""Frames of a WebSocket (RFC 6455) over a connected socket, both ways, for one reader and any number of writers.

TLS allows only one thread at a time in a connection, so the socket never blocks: who waits, waits outside of the lock.
"""

from __future__ import annotations

import base64
import hashlib
import os
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import NamedTuple

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_CHUNK = 1 << 16
_LARGEST_HEAD = 1 << 16
_LARGEST_FRAME = 1 << 26
_PING_SEC = 20.0  # balancers on the way forget quiet connections after a minute
_SILENT_SEC = 75.0  # the peer answers pings, so it is gone after this long without a byte
_SEND_SEC = 120.0  # for one frame, which the peer may read slowly


class Upgraded(NamedTuple):
    """The answer to a request for a WebSocket. `rest` is what came after its head: frames, or the body of an error."""

    status: int
    headers: dict[str, str]
    rest: bytes


class WebSocketClosed(OSError):
    """The connection has ended."""


def upgrade(sock: socket.socket, host: str, path: str, headers: dict[str, str], deadline: float) -> Upgraded:
    """Ask for a WebSocket. OSError, ValueError: the answer is none."""
    key = base64.b64encode(os.urandom(16))
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Key: {key.decode()}", "Sec-WebSocket-Version: 13"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    sock.settimeout(max(0.1, deadline - time.monotonic()))
    sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    answer = _head(sock, deadline)
    if answer.status != 101:
        return answer._replace(rest=_body(sock, answer))
    expected = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
    if answer.headers.get("sec-websocket-accept") != expected:
        raise ValueError("the answer to the request for a WebSocket is wrong")
    return answer


def _head(sock: socket.socket, deadline: float) -> Upgraded:
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > _LARGEST_HEAD:
            raise ValueError("the answer has too many headers")
        sock.settimeout(max(0.1, deadline - time.monotonic()))
        part = sock.recv(_CHUNK)
        if not part:
            raise WebSocketClosed("it closed the connection")
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Upgraded(int(first.split(" ")[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}, rest)


def _body(sock: socket.socket, answer: Upgraded) -> bytes:
    """The body of an error, as far as it comes."""
    data, length = answer.rest, answer.headers.get("content-length", "")
    try:
        while len(data) < min(int(length or 0), _LARGEST_HEAD):
            part = sock.recv(_CHUNK)
            if not part:
                break
            data += part
    except (OSError, ValueError):
        return data
    return data


class WebSocket:
    """`data` are bytes that have been read from the socket already."""

    def __init__(self, sock: socket.socket, data: bytes = b"") -> None:
        self._sock, self._data = sock, bytearray(data)
        sock.setblocking(False)
        self._tls_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._message = bytearray()
        self._heard = self._pinged = time.monotonic()
        self._sent = float("-inf")
        self._closed = False

    def read(self, timeout_sec: float | None = None) -> bytes | None:
        """The next message; None: none came in this time. WebSocketClosed."""
        end = None if timeout_sec is None else time.monotonic() + timeout_sec
        while True:
            if self._closed:
                raise WebSocketClosed("the connection was ended")
            while frame := self._frame():
                message = self._handled(*frame)
                if message is not None:
                    return message
            now = time.monotonic()
            if end is not None and now >= end:
                return None
            self._look_after(now)
            self._receive(min(1.0, _PING_SEC if end is None else end - now))

    def send(self, message: bytes) -> None:
        """Send a message. It may block while the peer reads slowly. WebSocketClosed."""
        with self._send_lock:
            self._sent = time.monotonic()
            self._write(_framed(BINARY, message), self._sent + _SEND_SEC)

    def close(self) -> None:
        """End the connection; another thread may be reading."""
        if self._closed:
            return
        self._closed = True
        self._say(_CLOSE, b"\x03\xe8")
        with self._tls_lock:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._sock.close()

    def _look_after(self, now: float) -> None:
        """Ask a silent peer for a word, and give it up in the end."""
        if now - self._heard > _SILENT_SEC and self._sent < self._heard:  # else it may just be reading slowly
            self.close()
            raise WebSocketClosed("no answer in time")
        if now - max(self._heard, self._pinged) > _PING_SEC:
            self._pinged = now
            self._say(_PING, b"")

    def _handled(self, code: int, is_last: bool, payload: bytes) -> bytes | None:
        if code == _CLOSE:
            self.close()
            raise WebSocketClosed("it ended the connection")
        if code == _PING:
            self._say(_PONG, payload)
        if code not in (_CONTINUED, _TEXT, BINARY):
            return None
        self._message += payload
        if not is_last:
            return None
        message, self._message = bytes(self._message), bytearray()
        return message

    def _frame(self) -> tuple[int, bool, bytes] | None:
        """The next whole frame in what was read: its code, whether it ends a message, its bytes."""
        data = self._data
        if len(data) < 2:
            return None
        length, at = data[1] & 0x7F, 2
        if length >= 126:
            at = 4 if length == 126 else 10
            if len(data) < at:
                return None
            length = int.from_bytes(data[2:at], "big")
        if length > _LARGEST_FRAME:
            raise WebSocketClosed("a frame is too long")
        if len(data) < at + length:
            return None
        found = data[0] & 0x0F, bool(data[0] & 0x80), bytes(data[at : at + length])
        del data[: at + length]
        return found

    def _receive(self, wait_sec: float) -> None:
        """Read what there is, waiting for it at most so long."""
        try:
            with self._tls_lock:
                part = self._sock.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._wait(select.POLLIN, wait_sec)
            return
        except ssl.SSLWantWriteError:
            self._wait(select.POLLOUT, wait_sec)
            return
        except OSError as error:
            raise WebSocketClosed(str(error)) from None
        if not part:
            raise WebSocketClosed("it closed the connection")
        self._heard = time.monotonic()
        self._data += part

    def _say(self, code: int, payload: bytes) -> None:
        """Send a short word if that is possible at once: who reads must not wait for a peer that waits for a reader."""
        if not self._send_lock.acquire(blocking=False):
            return
        try:
            if self._wait(select.POLLOUT, 0):
                self._write(_framed(code, payload), time.monotonic() + 1)
        except OSError:
            return  # who reads next learns it
        finally:
            self._send_lock.release()

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                with self._tls_lock:
                    view = view[self._sock.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, 1.0)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, 1.0)
            except OSError as error:
                raise WebSocketClosed(str(error)) from None
            if time.monotonic() > deadline:
                raise WebSocketClosed("it reads nothing")

    def _wait(self, event: int, seconds: float) -> bool:
        poller = select.poll()
        try:
            poller.register(self._sock, event)
        except (ValueError, OSError):
            raise WebSocketClosed("the connection was ended") from None
        return bool(poller.poll(max(0.0, seconds) * 1000))


def _framed(code: int, payload: bytes) -> bytes:
    """One whole message. A client masks what it sends; the mask 0 is as good as any where no proxy looks inside."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | code, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | code, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | code, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + bytes(4) + payload
