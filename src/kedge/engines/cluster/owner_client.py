"""Requests of the user's own commands to a controller, from any machine that can connect to it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from kedge.errors import CannotRun
from kedge.link import messages
from kedge.link.frames import BadFrame, FrameReader, LinkFrame, encoded
from kedge.link.keys import LinkKeys

_PIECE = 16 << 10


class NoAnswer(CannotRun):
    """The controller received a request, but did not confirm it. Repeating it is another request: a second request to
    stop is one to kill."""


def ask(keys: LinkKeys, addresses: Sequence[str], port: int, kind: str, by: str, timeout_sec: float = 10.0) -> None:
    """Ask the controller for `kind`, one of `messages.REQUESTS`, in the name of the user `by`, and return when it has
    confirmed that. `timeout_sec` is for each address and step. CannotRun: no address leads to the controller, or it
    refuses; NoAnswer."""
    failures = []
    for address in addresses:
        try:
            with _connected(keys, address, port, timeout_sec) as connection:
                _ask(connection, keys.owner, kind, by)
                return
        except OSError as error:
            failures.append(f"{address} port {port}: {_explained(error)}")
    raise CannotRun(f"the controller of this run cannot be reached ({'; '.join(failures) or 'it has no address'})")


def _connected(keys: LinkKeys, address: str, port: int, timeout_sec: float) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate itself is what is known
    context.load_verify_locations(cadata=keys.certificate)
    raw = socket.create_connection((address, port), timeout_sec)
    try:
        return context.wrap_socket(raw)
    except BaseException:
        raw.close()
        raise


def _ask(connection: ssl.SSLSocket, token: str, kind: str, by: str) -> None:
    connection.sendall(encoded({"kind": messages.HELLO, "version": messages.VERSION, "owner": token}))
    connection.sendall(encoded({"kind": messages.REQUEST, "request": kind, "by": by}))
    try:
        answer = _answer(connection)
    except (OSError, BadFrame) as error:
        raise NoAnswer(
            "the controller of this run received the request, but did not confirm it: "
            f"{_explained(error)}; check the job before you repeat it"
        ) from None
    if answer.header.get("done") is not True:
        raise CannotRun(f"the controller refuses: {answer.header.get('error')}")


def _answer(connection: ssl.SSLSocket) -> LinkFrame:
    reader = FrameReader()
    while not (frame := reader.next()):
        data = connection.recv(_PIECE)
        if not data:
            raise ConnectionError("it closed the connection without an answer")
        reader.feed(data)
    return frame


def _explained(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "another program answers there"
    return getattr(error, "strerror", None) or str(error)
