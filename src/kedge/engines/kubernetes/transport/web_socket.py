"""A WebSocket over the connection of an answer of httpx, for one reader and any number of writers. wsproto knows the
protocol.

TLS allows only one thread at a time in a connection, so the socket never blocks: who waits, waits outside of the lock.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections import deque
from contextlib import suppress

import httpcore
import httpx
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token, generate_nonce

from kedge.engines.kubernetes.transport.connections import socket_of, stay_alive

_CHUNK = 1 << 16
_PING_SEC = 20.0  # balancers on the way forget quiet connections after a minute
_SILENT_SEC = 75.0  # the peer answers pings, so it is gone after this long without a byte
_SEND_SEC = 120.0  # for one message, which the peer may read slowly
_SWITCHED = 101


class WebSocketClosed(OSError):
    """The connection has ended."""


class Handshake:
    """The headers of a request for a WebSocket, and what the answer must have."""

    def __init__(self) -> None:
        self._nonce = generate_nonce()
        self.headers = {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": self._nonce.decode(),
        }  # fmt: skip

    def is_accepted(self, response: httpx.Response) -> bool:
        """Whether the answer is that of a server that has understood the request."""
        expected = generate_accept_token(self._nonce).decode()
        return response.status_code == _SWITCHED and response.headers.get("Sec-WebSocket-Accept") == expected


class WebSocket:
    """The connection of an answer that accepts the handshake."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        stream = response.extensions["network_stream"]
        found = socket_of(response)
        assert found is not None, "httpx connects by sockets"
        self._sock: socket.socket = found
        stay_alive(found)
        self._protocol = Connection(ConnectionType.CLIENT)
        self._events: deque[Event] = deque()
        with suppress(httpcore.NetworkError, httpcore.TimeoutException):
            self._protocol.receive_data(stream.read(_CHUNK, timeout=0.0))  # what came with the answer
        self._sock.setblocking(False)
        self._lock = threading.Lock()  # of the protocol and of TLS
        self._sending = threading.Lock()  # one message after the other
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
            while event := self._next_event():
                message = self._handled(event)
                if message is not None:
                    return message
            now = time.monotonic()
            if end is not None and now >= end:
                return None
            self._look_after(now)
            self._receive(min(1.0, _PING_SEC if end is None else end - now))

    def send(self, message: bytes) -> None:
        """Send a message. It may block while the peer reads slowly. WebSocketClosed."""
        with self._sending:
            self._sent = time.monotonic()
            self._write(BytesMessage(message), self._sent + _SEND_SEC)

    def close(self) -> None:
        """End the connection; another thread may be reading."""
        if self._closed:
            return
        self._closed = True
        self._say(CloseConnection(1000))
        with self._lock, suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._response.close()

    def _next_event(self) -> Event | None:
        if not self._events:
            try:
                with self._lock:
                    self._events.extend(self._protocol.events())
            except RemoteProtocolError as error:
                raise WebSocketClosed(str(error)) from None
        return self._events.popleft() if self._events else None

    def _handled(self, event: Event) -> bytes | None:
        if isinstance(event, CloseConnection):
            self.close()
            raise WebSocketClosed("it ended the connection")
        if isinstance(event, Ping):
            self._say(event.response())
        if not isinstance(event, BytesMessage | TextMessage):
            return None
        self._message += event.data.encode() if isinstance(event.data, str) else event.data
        if not event.message_finished:
            return None
        message, self._message = bytes(self._message), bytearray()
        return message

    def _look_after(self, now: float) -> None:
        """Ask a silent peer for a word, and give it up in the end."""
        if now - self._heard > _SILENT_SEC and self._sent < self._heard:  # else it may just be reading slowly
            self.close()
            raise WebSocketClosed("no answer in time")
        if now - max(self._heard, self._pinged) > _PING_SEC:
            self._pinged = now
            self._say(Ping())

    def _receive(self, wait_sec: float) -> None:
        """Read what there is, waiting for it at most so long."""
        try:
            with self._lock:
                part = self._sock.recv(_CHUNK)
                self._protocol.receive_data(part or None)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._wait(select.POLLIN, wait_sec)
            return
        except ssl.SSLWantWriteError:
            self._wait(select.POLLOUT, wait_sec)
            return
        except (OSError, LocalProtocolError, RemoteProtocolError) as error:
            raise WebSocketClosed(str(error)) from None
        if not part:
            raise WebSocketClosed("it closed the connection")
        self._heard = time.monotonic()

    def _say(self, event: Event) -> None:
        """Send a short word if that is possible at once: who reads must not wait for a peer that waits for a reader."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            if self._wait(select.POLLOUT, 0):
                self._write(event, time.monotonic() + 1)
        except OSError:
            return  # who reads next learns it
        finally:
            self._sending.release()

    def _write(self, event: Event, deadline: float) -> None:
        with self._lock:
            if self._protocol.state not in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                raise WebSocketClosed("the connection was ended")
            view = memoryview(self._protocol.send(event))
        while view:
            try:
                with self._lock:
                    view = view[self._sock.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, 1.0)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, 1.0)
            except OSError as error:
                raise WebSocketClosed(str(error)) from None
            if view and time.monotonic() > deadline:
                raise WebSocketClosed("it reads nothing")

    def _wait(self, event: int, seconds: float) -> bool:
        poller = select.poll()
        try:
            poller.register(self._sock, event)
        except (ValueError, OSError):
            raise WebSocketClosed("the connection was ended") from None
        return bool(poller.poll(max(0.0, seconds) * 1000))
