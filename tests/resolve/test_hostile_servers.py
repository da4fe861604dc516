"""Servers that lie, hang or send garbage while a job is being resolved."""

from __future__ import annotations

import contextlib
import socket

import pytest

from kedge.resolve.lock_file import Repository
from kedge.resolve.sources import git, registry
from kedge.resolve.sources.base import Unavailable
from kedge.resolve.sources.http import Http, RequestLimits
from kedge.testing.raw_server import serving

from .conftest import Folder

QUICK = RequestLimits(connect=30, read=30, total=0.5)


def refused(url: str, limits: RequestLimits | None = None) -> str:
    http = Http(limits=limits or RequestLimits())
    with pytest.raises(Unavailable) as caught:
        http.fetch(url)
    http.close()
    assert caught.value.message.isprintable()
    return caught.value.message


@pytest.mark.parametrize(
    "place",
    ["http://[::1/x", "http://h:99999/x", "http://h:-1/x", "http://h:0/x", "http://h:²/x", "http://h:" + "9" * 30,
     "http://a..b/x", "http://" + "a" * 64 + "/x", "http://xn--a/x", "http://h/\x01", "http://h/\ud800", "http://h\n/"],
)  # fmt: skip
def test_invalid_addresses_are_refused(place: str) -> None:
    assert "is not a valid address" in refused(place)


@pytest.mark.parametrize(
    "target",
    ["http://[::1/x", "http://h:99999/", "http://127.0.0.1:99999/", "http://h:-1/", "http://h:²/", "http://a..b/",
     "http://" + "a" * 64 + "/", "http://\xff\xfe..a/", "\x01", "http://h:" + "9" * 30 + "/", "file:///etc/passwd"],
)  # fmt: skip
def test_redirects_that_lead_nowhere(target: str) -> None:
    with serving(b"HTTP/1.1 302 Found\r\nLocation: " + target.encode("latin-1") + b"\r\n\r\n") as server:
        assert server.url in refused(server.url)
        assert len(server.requests) == 1


def test_text_from_a_server_is_shown_escaped() -> None:
    with serving(b"HTTP/1.1 404 \x1b[2J\x9b" + b"x" * 5000 + b"\r\n\r\n") as server:
        message = refused(server.url)
        assert "answers 404 \\x1b[2J" in message
        assert len(message) < 500


def test_slow_headers_end_at_the_time_limit() -> None:
    def drip(connection: socket.socket, _headers: dict[str, str]) -> None:
        connection.settimeout(0.01)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"a")
            with contextlib.suppress(TimeoutError):
                connection.recv(1)
                return

    with serving(drip) as server:
        assert "takes more than 0.5 s" in refused(server.url, QUICK)


def test_all_redirects_share_one_time_limit() -> None:
    def slow(connection: socket.socket, headers: dict[str, str]) -> None:
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            connection.recv(1)
        connection.sendall(
            b"HTTP/1.1 302 F\r\nLocation: " + headers[":path"].encode() + b"x\r\nContent-Length: 0\r\n\r\n"
        )

    with serving(slow) as server:
        assert "takes more than 0.5 s" in refused(server.url, QUICK)
        assert len(server.requests) < 5


def digest_from(token: bytes) -> str | None:
    """The reason why there is no digest if the registry's token server gives this answer."""

    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if headers[":path"].startswith("/token"):
            return connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + token)
        challenge = f'WWW-Authenticate: Bearer realm="{server.url}/token",service="x"\r\n'.encode()
        return connection.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n" + challenge + b"\r\n")

    with serving(answer) as server:
        return registry.digest(f"localhost:{server.port}/team/image").unlocked


@pytest.mark.parametrize(
    "token",
    [b"[" * 200_000, b'{"token": "\\ud800"}', b'{"token": "a\\nb"}', b"\xff", b"[]", b"", b'"x"', b" " * (2 << 20),
     b'{"token": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_invalid_tokens_are_not_used(token: bytes) -> None:
    assert "the registry " in (digest_from(token) or "")


@pytest.mark.parametrize(
    "realm", ["http://[", "http://h:99999/", "file:///etc/passwd", "/x", "http://127.0.0.1:99999/"]
)
def test_an_invalid_token_server_is_not_contacted(realm: str) -> None:
    challenge = f'WWW-Authenticate: Bearer realm="{realm}"\r\n'.encode()
    with serving(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n" + challenge + b"\r\n") as server:
        assert "cannot be reached" in (registry.digest(f"localhost:{server.port}/x").unlocked or "")


def test_an_invalid_digest_is_not_pinned() -> None:
    with serving(b"HTTP/1.1 200 OK\r\nDocker-Content-Digest: \x1b[2J\r\nContent-Length: 0\r\n\r\n") as server:
        pin = registry.digest(f"localhost:{server.port}/x")
        assert pin.unlocked == "the registry answers with '\\x1b[2J', which is not a digest"


@pytest.mark.parametrize("image", ["localhost:99999/x", "localhost:" + "9" * 30 + "/x", "a..b/x"])
def test_addresses_that_no_registry_has_are_not_pinned(image: str) -> None:
    assert "is not the address of a registry" in (registry.digest(image).unlocked or "")


def test_impossible_registries_are_not_pinned() -> None:
    assert "cannot be reached: " in (registry.digest("a" * 64 + ".b/x").unlocked or "")


@pytest.mark.parametrize(("uri", "ref"), [("a\0b", "main"), ("\ud800", "main"), ("/tmp", "a\0")])
def test_impossible_repositories_are_not_pinned(uri: str, ref: str) -> None:
    assert "git cannot be run" in (git.commit(Repository(uri, ref)).unlocked or "")


def test_an_index_with_a_lone_surrogate_is_refused(folder: Folder) -> None:
    folder.write("m/index.json", '{"items": [{"id": "\\ud800", "name": "x", "path": "\\udc00"}]}')
    problem = folder.problem(["marketplace://name/x"], {"marketplace": str(folder.path / "m")})
    assert "is invalid" in problem.message
