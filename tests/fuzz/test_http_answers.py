"""Whatever a server answers, a download gives the file or the reason for its failure, and never mixes two files."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from email.message import Message
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.runtime.actions import addresses, http_headers
from kedge.runtime.actions.backoff import Backoff
from kedge.runtime.actions.base import ActionFailed, ActionJob
from kedge.runtime.actions.http_download import Transfer, TransferLimits
from kedge.runtime.actions.http_headers import InvalidResponse
from kedge.testing.raw_server import RawServer, reset, serving

LINES = [
    b"Content-Length: ", b"Content-Range: bytes ", b"Content-Range: bytes */", b"Retry-After: ", b"ETag: ", b"Date: ",
    b"Location: ", b"Last-Modified: ", b"Transfer-Encoding: ", b"Content-Encoding: gzip", b"Connection: ", b"X: ", b" ",
]  # fmt: skip
VALUES = [
    b"5", b"0", b"-1", b"+5", b"1_0", b"\xb2", b"\xd9\xa3", b"9" * 30, b"9" * 5000, b"0-4/5", b"5-4/5", b"0-4/*",
    b"5-9/10", b"*/5", b'"tag"', b'W/"tag"', b"\xff", b"chunked", b"gzip", b"identity", b"http://[", b"/", b"//",
    b"http://h:99999/", b"file:///etc/passwd", b"http://a..b/", b"Wed, 01 Jan 2020 00:00:00 GMT", b"\0",
    b"Fri, 31 Dec 99999 00:00:00 GMT", b"Mon, 01 Jan 0001 00:00:00 +9999", b"Wed, 01 Jan 2020 00:00:00 -999999999999",
    b"5, 5", b"5, 6", b"\r", b"\x1b[2J",
]  # fmt: skip
texts = st.lists(st.sampled_from(VALUES) | st.binary(max_size=4), max_size=2).map(b"".join)
lines = st.tuples(st.sampled_from(LINES), texts).map(b"".join)
statuses = st.sampled_from(
    [b"HTTP/1.1 200 OK", b"HTTP/1.1 206 P", b"HTTP/1.1 416 N", b"HTTP/1.1 302 F", b"HTTP/1.1 503 B", b"HTTP/1.1 100 C",
     b"HTTP/1.0 200", b"HTTP/1.1 204 N", b"HTTP/1.1 1000 x", b"HTTP/1.1 \xb2\xb2\xb2 x", b"nonsense", b"HTTP/9.9 200 x"]
)  # fmt: skip
bodies = st.sampled_from(
    [b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n", b"ffffffffffff\r\n", b"x" * 9000]
)
answers = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda s, h, b: b"\r\n".join([s, *h, b"", b]), statuses, st.lists(lines, max_size=5), bodies),
)


def failure(call: Callable[[], None]) -> ActionFailed | None:
    try:
        call()
    except ActionFailed as failed:
        return failed
    return None


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def job() -> Iterator[ActionJob]:
    fd = os.open(os.devnull, os.O_WRONLY)
    yield ActionJob(1, "/", (), fd)
    os.close(fd)


@given(st.lists(answers, min_size=1, max_size=3), st.booleans(), st.binary(max_size=6))
@settings(max_examples=80)
def test_any_answer(server: RawServer, job: ActionJob, sent: list[bytes], checked: bool, there: bytes) -> None:
    left = list(sent)

    def answer(connection: socket.socket, _headers: dict[str, str]) -> None:
        connection.sendall(left.pop(0) if left else b"HTTP/1.1 404 No more\r\n\r\n")

    server.answer = answer
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/file"
        with open(path, "wb") as file:
            file.write(there)
        transfer = Transfer(f"{server.url}/x", path, TransferLimits(1 << 20, 20.0), job, checked)
        patience = Backoff(tries=3, first_sec=0.0, cap_sec=0.0)
        if failed := failure(lambda: patience.retry(job, transfer.attempt)):
            assert failed.cause
            assert str(failed).isprintable()
            assert len(str(failed)) < 1500
            assert failed.delay_sec is None or 0 <= failed.delay_sec <= 86_400
        assert set(os.listdir(folder)) <= {"file", "file.version"}


class Turn(NamedTuple):
    """How an honest but otherwise arbitrary server answers one request: which version of the file it sends, whether it
    names that version, supports ranges and sends chunks, and after how many bytes and how it breaks off."""

    version: int
    tagged: bool
    ranges: bool
    chunked: bool
    cut: int
    resets: bool


VERSIONS = [bytes([version]) * 40_000 for version in (1, 2)]
turns = st.builds(
    Turn, st.integers(0, 1), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 50_000), st.booleans()
)


def honest(connection: socket.socket, headers: dict[str, str], turn: Turn) -> None:
    data, tag = VERSIONS[turn.version], f'"{turn.version}"'
    start = int(headers.get("range", "bytes=0-")[6:-1]) if turn.ranges else 0
    if headers.get("if-range", tag) != tag:
        start = 0
    said = [f"ETag: {tag}"] if turn.tagged else []
    if start >= len(data):
        said = [f"Content-Range: bytes */{len(data)}"]
    elif start:
        said.append(f"Content-Range: bytes {start}-{len(data) - 1}/{len(data)}")
    body = data[start:]
    if turn.chunked:
        said.append("Transfer-Encoding: chunked")
        body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    else:
        said.append(f"Content-Length: {len(body)}")
    status = "416 N" if start >= len(data) else "206 P" if start else "200 OK"
    connection.sendall("\r\n".join([f"HTTP/1.1 {status}", *said, "", ""]).encode() + body[: turn.cut])
    if turn.cut < len(body) and turn.resets:
        reset(connection)


@given(st.lists(turns, max_size=8))
@settings(max_examples=60)
def test_versions_are_never_mixed(server: RawServer, job: ActionJob, plan: list[Turn]) -> None:
    left = list(plan)

    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        honest(connection, headers, left.pop(0) if left else Turn(0, True, True, False, 1 << 20, False))

    server.answer = answer
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/file"
        persistent = Backoff(tries=20, first_sec=0.0, cap_sec=0.0)
        persistent.retry(job, Transfer(f"{server.url}/x", path, TransferLimits(), job, False).attempt)
        with open(path, "rb") as file:
            assert file.read() in VERSIONS


@given(st.lists(st.tuples(st.sampled_from(LINES), texts), max_size=4), st.text())
@settings(max_examples=150)
def test_any_header(said: list[tuple[bytes, bytes]], text: str) -> None:
    headers = Message()
    for line, value in said:
        name, _, start = line.decode("latin-1").partition(":")
        headers[name] = start + value.decode("latin-1")
    for read in (http_headers.length, http_headers.part):
        with contextlib.suppress(InvalidResponse):
            read(headers)
    http_headers.whole(headers)
    http_headers.validator(headers)
    for each in (text, headers["Retry-After"]):
        assert 0 <= (http_headers.wait_sec(each) or 0) <= 86_400


PIECES = [
    "http://", "https://", "HTTP://", "file://", "s3://", "ssh://", "//", "[::1", "[::1]", "]", "[", ":", ":99999",
    ":x", ":-1", "/", "@", "#", "?", "%", "%00", "%ff", "..", "a", "xn--", "xn--a.b", "ä", "℀", "\ud800", "\0", "\n",
    " ", "\x7f", "\x9b", "1.2.3.4", "．", "a" * 300, "9" * 5000,
]  # fmt: skip
uris = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join)


@given(uris, st.booleans())
@settings(max_examples=250)
def test_any_address(uri: str, redirect: bool) -> None:
    if failed := failure(lambda: ask(uri, redirect)):
        assert failed.cause in ("bad_config", "data_file_missing")
        assert str(failed).isprintable()


def ask(uri: str, redirect: bool) -> None:
    if redirect:
        url = addresses.redirected("http://host/x", uri.encode("utf-8", "replace").decode("latin-1"))
    else:
        addresses.check(uri)
        url = addresses.parse(uri).url if uri.lower().startswith("http") else "http://none"
    assert url.isascii()
    assert url.startswith(("http://", "https://", "HTTP"))
    assert " " not in url
