"""A program in a container, with its streams: the protocol v4.channel.k8s.io, or v5 where the server has it.

Each message begins with the number of its channel. https://github.com/kubernetes/apimachinery, remotecommand.
"""

from __future__ import annotations

import json
import time
from typing import NamedTuple

from kedge.engines.kubernetes.transport.api_errors import ApiError, unreachable
from kedge.engines.kubernetes.transport.web_socket import WebSocket, WebSocketClosed

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PROTOCOLS = f"{V5}, {V4}"
STDIN, STDOUT, STDERR, _STATUS, _RESIZE, _END = 0, 1, 2, 3, 4, 255
_CHUNK = 1 << 15


class ExecFrame(NamedTuple):
    """Some output. `channel` is STDOUT or STDERR."""

    channel: int
    data: bytes


class ExecStream:
    """One thread reads, others may write.

    `exit_code` is None until the program has ended and all its output was read.
    """

    def __init__(self, socket: WebSocket, protocol: str, server: str, what: str) -> None:
        self._socket, self._protocol, self._server, self._what = socket, protocol, server, what
        self.exit_code: int | None = None

    def read(self, timeout_sec: float | None = None) -> ExecFrame | None:
        """The next output; None: the program has ended (`exit_code` is set then), or nothing came in this time.
        ApiError: the connection is lost, or the program cannot be started."""
        end = None if timeout_sec is None else time.monotonic() + timeout_sec
        while self.exit_code is None:
            try:
                message = self._socket.read(None if end is None else max(0.0, end - time.monotonic()))
            except WebSocketClosed as error:
                raise unreachable(self._server, f"while {self._what} ran: {error}") from None
            if message is None:
                return None
            if found := self._taken(message):
                return found
        return None

    def _taken(self, message: bytes) -> ExecFrame | None:
        channel, data = message[:1], message[1:]
        if channel == bytes((_STATUS,)) and data:
            self.exit_code = _code(data, self._what)
        elif channel in (bytes((STDOUT,)), bytes((STDERR,))) and data:  # each channel begins with an empty message
            return ExecFrame(channel[0], data)
        return None

    def write(self, data: bytes) -> None:
        """Send input. It may block while the program does not read. ApiError."""
        for at in range(0, len(data), _CHUNK):
            self._send(bytes((STDIN,)) + data[at : at + _CHUNK])

    def close_stdin(self) -> bool:
        """End the program's input. False: this server cannot do that, so that the program must know the end itself."""
        if self._protocol != V5:
            return False
        self._send(bytes((_END, STDIN)))
        return True

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal. ApiError."""
        self._send(bytes((_RESIZE,)) + json.dumps({"Width": columns, "Height": rows}).encode())

    def close(self) -> None:
        """End the connection; another thread may be reading. It does not end a program that needs no input."""
        self._socket.close()

    def __enter__(self) -> ExecStream:
        return self

    def __exit__(self, *of_exception: object) -> None:
        self.close()

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send(message)
        except WebSocketClosed as error:
            raise unreachable(self._server, f"while {self._what} ran: {error}") from None


def _code(data: bytes, what: str) -> int:
    """The exit code in the last word about a program. ApiError: it did not run."""
    try:
        status = json.loads(data)
        if status.get("status") == "Success":
            return 0
        causes = status.get("details", {}).get("causes", ())
        if status.get("reason") == "NonZeroExitCode":
            return next(int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode")
        said = str(status.get("message") or "")
    except (ValueError, AttributeError, KeyError, TypeError, StopIteration):
        said = data[:500].decode(errors="replace")
    raise ApiError(500, "ExecFailed", f"{what} did not run: {said}", server_message=said)
