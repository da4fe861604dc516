"""An HTTP server for tests that sends exact bytes and breaks connections on demand."""

from __future__ import annotations

import contextlib
import fcntl
import select
import socket
import struct
import termios
import threading
from collections.abc import Callable, Iterator

from kedge.testing.wait import wait_until

Answer = Callable[[socket.socket, dict[str, str]], None]  # writes to the connection; gets the request's headers
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: drop unsent data and send RST to the other side


class RawServer:
    """Listens at `url`. Calls `answer` for every request, or sends it if it is bytes. `requests` holds the headers of
    all requests, with names in lower case and the path as ":path"."""

    def __init__(self, answer: Answer | bytes = b"") -> None:
        self.answer = answer
        self.requests: list[dict[str, str]] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            headers = _request(connection)
            self.requests.append(headers)
            if isinstance(self.answer, bytes):
                connection.sendall(self.answer)
            else:
                self.answer(connection, headers)


def reset(connection: socket.socket) -> None:
    """Reset the connection once all sent data has arrived, or the other side has closed it."""
    with contextlib.suppress(AssertionError):
        wait_until(lambda: _unsent(connection) == 0 or _is_given_up(connection), deadline=60.0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.close()


@contextlib.contextmanager
def serving(answer: Answer | bytes = b"") -> Iterator[RawServer]:
    """A server that ends with the context."""
    server = RawServer(answer)
    try:
        yield server
    finally:
        server.close()


def _unsent(connection: socket.socket) -> int:
    return int(struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0])


def _is_given_up(connection: socket.socket) -> bool:
    """Whether the other side has closed the connection."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def _request(connection: socket.socket) -> dict[str, str]:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError
        received += piece
    first, *lines = received.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return {":path": first.split(" ")[1], **{name.lower(): value.strip() for name, _, value in pairs}}
