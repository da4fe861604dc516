"""Commands in containers: a websocket of `v4.channel.k8s.io` (from 1.30 on `v5`) to a function of the test.

Each message begins with a byte that names its channel: 0 stdin, 1 stdout, 2 stderr, 3 the end as a Status, 4 the size
of the terminal; 255, which v5 adds, that a channel has ended.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from kedge.testing.kubernetes_api.access import AccessRules
from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json
from kedge.testing.kubernetes_api.resources import POD, FakePlace
from kedge.testing.kubernetes_api.store import ObjectStore

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_GOODBYE_SEC = 5.0
_CLOSED = 255  # a channel; from version 5 of the protocol on
_STDIN, _STDOUT, _STDERR, _END, _RESIZE = range(5)
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10


class ExecCall:
    """One command as the test's function sees it. `sizes` are those of its terminal so far, as (columns, rows)."""

    def __init__(self, place: FakePlace, container: str, argv: list[str], terminal: bool, frames: _ExecFrames) -> None:
        self.namespace, self.pod, self.container = place.namespace, place.name, container
        self.argv, self.terminal = argv, terminal
        self.sizes: list[tuple[int, int]] = []
        self._frames = frames

    def read(self) -> bytes:
        """What came on stdin; waits for it. Empty at its end, or once the client has gone."""
        while message := self._frames.receive():
            if message[0] == _CLOSED:
                return b""
            if message[0] == _STDIN and len(message) > 1:
                return message[1:]
            if message[0] == _RESIZE:
                size = json.loads(message[1:])
                self.sizes.append((size["Width"], size["Height"]))
        return b""

    def write(self, data: bytes) -> None:
        """To stdout."""
        self._frames.send(_BINARY, bytes([_STDOUT]) + data)

    def write_error(self, data: bytes) -> None:
        """To stderr."""
        self._frames.send(_BINARY, bytes([_STDERR]) + data)

    def drop(self) -> None:
        """Break the connection."""
        self._frames.drop()


Command = Callable[[ExecCall], int]  # returns the exit code


def no_command(call: ExecCall) -> int:
    """Where a test sets none: there is no such program."""
    call.write_error(f"exec: {call.argv[0]!r}: executable file not found in $PATH\n".encode())
    return 126


class ExecHost(NamedTuple):
    """What a server says about commands. `v5`: whether it knows that version of the protocol."""

    store: ObjectStore
    rules: AccessRules
    command: Command
    v5: bool


def serve(handler: BaseHTTPRequestHandler, host: ExecHost, place: FakePlace) -> None:
    """Answer a request for a websocket. FakeRefusal: before it became one."""
    query = parse_qsl(urlsplit(handler.path).query, keep_blank_values=True)
    container = dict(query).get("container", "")
    _check(host.store, host.rules, place, container)
    frames = _ExecFrames(handler.rfile, handler.wfile)
    _accept(handler, _PROTOCOLS if host.v5 else _PROTOCOLS[1:])
    argv = [value for name, value in query if name == "command"]
    call = ExecCall(place, container, argv, dict(query).get("tty") in ("true", "1", "True"), frames)
    try:
        code = host.command(call)
        frames.send(_BINARY, bytes([_END]) + json.dumps(_end(code)).encode())
        frames.send(_CLOSE, struct.pack(">H", 1000))
        handler.connection.settimeout(_GOODBYE_SEC)
        while frames.receive():  # data that nobody has read would reset the connection, and what was sent be lost
            pass
    except OSError:
        pass  # the client has gone
    handler.close_connection = True


def _check(store: ObjectStore, rules: AccessRules, place: FakePlace, container: str) -> None:
    if place.kind != POD or place.subresource != "exec":
        raise FakeRefusal(404, "the server could not find the requested resource")
    rules.check_permission("create", place)
    pod = store.get(POD, place.namespace, place.name)
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        phase = pod["status"]["phase"]
        raise FakeRefusal(500, f"cannot exec into a container in a completed pod; current phase is {phase}")
    running = [c["name"] for c in pod["status"].get("containerStatuses", ()) if "running" in c.get("state", {})]
    if (container or (running or [""])[0]) not in running:
        raise FakeRefusal(500, f'unable to upgrade connection: container not found ("{container}")')


def _accept(handler: BaseHTTPRequestHandler, protocols: tuple[str, ...]) -> None:
    key = handler.headers.get("Sec-WebSocket-Key", "")
    accept = base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()  # noqa: S324  # RFC 6455
    handler.send_response(101)
    for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)):
        handler.send_header(name, value)
    offered = [name.strip() for name in handler.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    for protocol in [name for name in protocols if name in offered][:1]:
        handler.send_header("Sec-WebSocket-Protocol", protocol)
    handler.end_headers()


def _end(code: int) -> Json:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes},
        "message": f"command terminated with non-zero exit code: exit status {code}",
    }  # fmt: skip


class _ExecFrames:
    """The frames of a websocket, from the server's side."""

    def __init__(self, source: BufferedIOBase, target: BufferedIOBase) -> None:
        self._source, self._target, self._lock = source, target, threading.Lock()

    def receive(self) -> bytes:
        """The next message; empty if the other side has ended."""
        message = b""
        while True:
            head = self._source.read(2)
            if len(head) < 2:
                return b""
            payload = self._payload(head[1])
            kind = head[0] & 15
            if kind == _CLOSE:
                return b""
            if kind == _PING:
                self.send(_PONG, payload)
            elif kind != _PONG:
                message += payload
                if head[0] & 128:
                    return message

    def send(self, kind: int, data: bytes) -> None:
        """OSError: the client has gone."""
        size = len(data)
        head = bytes([128 | kind])
        if size < 126:
            head += bytes([size])
        else:
            head += struct.pack(">BH", 126, size) if size < 1 << 16 else struct.pack(">BQ", 127, size)
        with self._lock:
            self._target.write(head + data)

    def drop(self) -> None:
        """End it without a word."""
        self._source.close()
        raise ConnectionResetError

    def _payload(self, second: int) -> bytes:
        size = second & 127
        if size == 126:
            size = int(struct.unpack(">H", self._source.read(2))[0])
        elif size == 127:
            size = int(struct.unpack(">Q", self._source.read(8))[0])
        mask = self._source.read(4) if second & 128 else bytes(4)
        data = self._source.read(size)
        whole = int.from_bytes(mask * (size // 4 + 1), "big") >> 8 * ((size // 4 + 1) * 4 - size)
        return (int.from_bytes(data, "big") ^ whole).to_bytes(size, "big")
