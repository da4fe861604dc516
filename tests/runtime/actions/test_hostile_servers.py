"""Downloads from servers that break off, lie, hang or send invalid responses, over real sockets on the loopback."""

from __future__ import annotations

import contextlib
import email.utils
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kedge.runtime.actions import download
from kedge.runtime.actions.backoff import Backoff
from kedge.runtime.actions.base import ActionFailed, ActionJob
from kedge.runtime.actions.http_download import Transfer, TransferLimits
from kedge.testing.raw_server import reset, serving

DATA = os.urandom(1_500_000)
QUICK = Backoff(tries=3, first_sec=0.001, cap_sec=0.002)
TAG = b'ETag: "one"\r\n'
LONG_AGO = b"Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT\r\n"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[ActionJob]:
    fd = os.open(os.devnull, os.O_WRONLY)
    yield ActionJob(1, str(tmp_path), (), fd)
    os.close(fd)


@pytest.fixture
def get(job: ActionJob, tmp_path: Path) -> Callable[..., bytes]:
    """Fetch an address in as many tries as needed, and return what arrived. ActionFailed if it fails."""

    def run(uri: str, patience: Backoff = QUICK, silence_sec: float = 20.0, checked: bool = False) -> bytes:
        path = tmp_path / "file"
        patience.retry(job, Transfer(uri, str(path), TransferLimits(None, silence_sec), job, checked).attempt)
        return path.read_bytes()

    return run


def head(status: str, *headers: bytes) -> bytes:
    return b"HTTP/1.1 " + status.encode() + b"\r\n" + b"".join(headers) + b"\r\n"


def size(number: object) -> bytes:
    return f"Content-Length: {number}\r\n".encode()


def asked(headers: dict[str, str]) -> int:
    return int(headers.get("range", "bytes=0-")[len("bytes=") : -1])


def served(headers: dict[str, str], data: bytes = DATA, version: bytes = TAG) -> bytes:
    """The complete response of a correct server."""
    start = asked(headers)
    place = f"Content-Range: bytes {start}-{len(data) - 1}/{len(data)}\r\n".encode() if start else b""
    return head("206 Partial" if start else "200 OK", size(len(data) - start), version, place) + data[start:]


def breaking(sent: int, **options: bytes) -> Callable[[socket.socket, dict[str, str]], None]:
    """Every connection is reset after a number of bytes of the body."""

    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        before, blank, body = served(headers, **options).partition(b"\r\n\r\n")
        connection.sendall(before + blank + body[:sent])
        if len(body) > sent:
            reset(connection)

    return answer


# What has arrived before a connection breaks is kept.


@pytest.mark.parametrize("version", [TAG, LONG_AGO])
def test_a_server_that_always_resets_after_500_kb(get: Callable[..., bytes], version: bytes) -> None:
    with serving(breaking(500_000, version=version)) as server:
        assert get(server.url, Backoff(tries=2, first_sec=0.001)) == DATA
        assert [asked(each) for each in server.requests] == [0, 500_000, 1_000_000]
        assert server.requests[1]["if-range"] == version.split(b": ")[1].decode().strip()


def test_without_a_version_a_broken_download_starts_over(get: Callable[..., bytes]) -> None:
    with serving(breaking(500_000, version=b"")) as server:
        with pytest.raises(ActionFailed, match="starts over, because the server sends no ETag"):
            get(server.url)
        assert {asked(each) for each in server.requests} == {0}
        assert get(server.url, checked=True) == DATA


@pytest.mark.parametrize("when", ["now", "Wed, 32 Foo 2020", "Fri, 01 Jan 99999 00:00:00 GMT"])
def test_a_last_modified_that_two_versions_may_share_is_not_used(get: Callable[..., bytes], when: str) -> None:
    now = email.utils.formatdate(usegmt=True)
    version = f'Date: {now}\r\nLast-Modified: {now if when == "now" else when}\r\nETag: W/"weak"\r\n'
    with serving(breaking(500_000, version=version.encode())) as server:
        with pytest.raises(ActionFailed, match="starts over"):
            get(server.url)
        assert {asked(each) for each in server.requests} == {0}


def test_tries_that_make_progress_do_not_count(get: Callable[..., bytes]) -> None:
    with serving(breaking(30_000)) as server:
        assert get(server.url) == DATA
        assert len(server.requests) == 50


def test_a_chunked_response_that_breaks_off(get: Callable[..., bytes]) -> None:
    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if asked(headers):
            return connection.sendall(served(headers))
        connection.sendall(head("200 OK", TAG, b"Transfer-Encoding: chunked\r\n") + b"186a0\r\n" + DATA[:70_000])
        return reset(connection)

    with serving(answer) as server:
        assert get(server.url) == DATA
        assert [asked(each) for each in server.requests] == [0, 70_000]


# Whatever does not match what is there is not mixed with it.

WRONG_PARTS = {
    "another place": (b"bytes 400000-1499999/1500000", 1_000_000),
    "another size": (b"bytes 500000-1499999/1500001", 1_000_000),
    "no size": (b"bytes 500000-/1500000", 1_000_000),
    "backwards": (b"bytes 500000-400000/1500000", 1_000_000),
    "other digits": ("bytes 500000-1499999/١٥٠٠٠٠٠".encode(), 1_000_000),
    "another unit": (b"lines 500000-1499999/1500000", 1_000_000),
    "another length": (b"bytes 500000-1499999/1500000", 999_999),
    "nothing": (b"", 1_000_000),
}


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_a_part_that_does_not_match(get: Callable[..., bytes], name: str) -> None:
    place, length = WRONG_PARTS[name]

    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if len(server.requests) == 1 or not asked(headers):
            return breaking(500_000 if len(server.requests) == 1 else 1 << 30)(connection, headers)
        return connection.sendall(head("206 P", TAG, size(length), b"Content-Range: ", place, b"\r\n") + b"!" * length)

    with serving(answer) as server:
        assert get(server.url) == DATA
        assert [asked(each) for each in server.requests] == [0, 500_000, 0]


def test_a_part_of_another_version(get: Callable[..., bytes]) -> None:
    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if asked(headers):
            return connection.sendall(served(headers, bytes(len(DATA)), b'ETag: "two"\r\n'))
        return breaking(500_000 if len(server.requests) == 1 else 1 << 30)(connection, headers)

    with serving(answer) as server:
        assert get(server.url) == DATA
        assert [asked(each) for each in server.requests] == [0, 500_000, 0]


def test_a_changed_file_is_fetched_again(get: Callable[..., bytes]) -> None:
    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if len(server.requests) == 1:
            return breaking(500_000)(connection, headers)
        return connection.sendall(served({}, b"the new content", b'ETag: "two"\r\n'))

    with serving(answer) as server:
        assert get(server.url) == b"the new content"
        assert server.requests[1]["if-range"] == '"one"'


def test_an_unrequested_part_is_not_taken_for_the_whole_file(get: Callable[..., bytes], tmp_path: Path) -> None:
    part = head("206 Partial Content", TAG, size(5), b"Content-Range: bytes 0-4/10\r\n") + b"01234"
    with serving(part) as server:
        with pytest.raises(ActionFailed, match="it is a part of the file, although the whole was requested") as caught:
            get(server.url)
        assert caught.value.transient
        assert not (tmp_path / "file").exists()


def test_a_server_that_sends_less_than_was_asked_for(get: Callable[..., bytes]) -> None:
    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if not (start := asked(headers)):
            return breaking(500_000)(connection, headers)
        end = min(len(DATA), start + 300_000)
        place = f"Content-Range: bytes {start}-{end - 1}/{len(DATA)}\r\n".encode()
        return connection.sendall(head("206 Partial", TAG, size(end - start), place) + DATA[start:end])

    with serving(answer) as server:
        assert get(server.url) == DATA
        assert len(server.requests) == 5


@pytest.mark.parametrize(("said", "requests"), [(b"bytes */1500000", 1), (b"bytes */7", 2), (b"", 2)])
def test_416(get: Callable[..., bytes], tmp_path: Path, said: bytes, requests: int) -> None:
    (tmp_path / "file").write_bytes(DATA)

    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if asked(headers):
            return connection.sendall(head("416 Range Not Satisfiable", size(0), b"Content-Range: ", said, b"\r\n"))
        return connection.sendall(served(headers))

    with serving(answer) as server:
        assert get(server.url, checked=True) == DATA
        assert len(server.requests) == requests


def test_a_partial_file_of_another_process_is_resumed(get: Callable[..., bytes], tmp_path: Path) -> None:
    with serving(breaking(500_000)) as server:
        with pytest.raises(ActionFailed):
            get(f"{server.url}/a", Backoff(tries=1))
        assert get(f"{server.url}/a") == DATA
        assert asked(server.requests[1]) == 500_000
        (tmp_path / "file").write_bytes(DATA[:7])
        assert get(f"{server.url}/b") == DATA, "it is the beginning of another address"
        assert asked(server.requests[3]) == 0


# Answers that are none.

NONSENSE = {
    **{f"length {each}": size(each) for each in ("²", "-5", "+5", "1_0", "0x5", "5.0", "5, 6", "", "٣", "5 5")},
    "two lengths": size(5) + size(6),
    "a coding that nobody wanted": b"Transfer-Encoding: gzip, chunked\r\n",
}


@pytest.mark.parametrize("name", NONSENSE)
def test_invalid_headers(get: Callable[..., bytes], name: str) -> None:
    with serving(b"HTTP/1.1 200 OK\r\n" + NONSENSE[name] + b"\r\nhello") as server:
        with pytest.raises(ActionFailed, match="the server's response is not valid: its ") as caught:
            get(server.url)
        assert (caught.value.cause, len(server.requests)) == ("network_transient", 3)


@pytest.mark.parametrize("status", ["204 No Content", "202 Accepted", "103 Early Hints"])
def test_a_success_without_the_file(get: Callable[..., bytes], status: str) -> None:
    with serving(head(status, size(0))) as server, pytest.raises(ActionFailed, match=f"its status is {status}"):
        get(server.url)


@pytest.mark.parametrize("body", [b"-5\r\nhello\r\n", b"zz\r\n", b"5\r\nhel", b"\xb2\r\n", b"f" * 5000 + b"\r\n"])
def test_invalid_chunks(get: Callable[..., bytes], body: bytes) -> None:
    with (
        serving(head("200 OK", b"Transfer-Encoding: chunked\r\n") + body) as server,
        pytest.raises(ActionFailed) as caught,
    ):
        get(server.url)
    assert caught.value.transient


@pytest.mark.parametrize("length", ["99999999999999999999", "9" * 90])
def test_more_than_any_disk_holds(get: Callable[..., bytes], length: str) -> None:
    with serving(head("200 OK", size(length))) as server, pytest.raises(ActionFailed) as caught:
        get(server.url)
    assert (caught.value.cause, len(server.requests)) == ("disk_full", 1)


def test_equal_lengths_are_one(get: Callable[..., bytes]) -> None:
    with serving(head("200 OK", size("5, 5"), size(5)) + b"hello") as server:
        assert get(server.url) == b"hello"


@pytest.mark.parametrize(
    ("said", "delay"),
    [("²", None), ("-5", None), ("1e9", None), ("9" * 5000, 86_400.0), ("1" * 19, 86_400.0), ("٣", None), ("", None),
     ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0), ("Fri, 31 Dec 99999999999 23:59:59 GMT", None),
     ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0), ("Mon, 01 Jan 2024 00:00:00 +99999999999999999999", None),
     ("Mon, 01 Jan 2024 99:99:99", None), ("a" * 4000, None)],
)  # fmt: skip
def test_retry_after(get: Callable[..., bytes], said: str, delay: float | None) -> None:
    with serving(b"HTTP/1.1 503 Busy\r\nRetry-After: " + said.encode() + b"\r\n\r\n") as server:
        with pytest.raises(ActionFailed, match="HTTP Error 503: Busy") as caught:
            get(server.url, Backoff(tries=1))
        assert caught.value.delay_sec == delay


def test_control_characters_of_a_server_are_shown_as_text(get: Callable[..., bytes]) -> None:
    with (
        serving(b"HTTP/1.1 404 \x1b[2J\x9b" + b"x" * 5000 + b"\r\n\r\n") as server,
        pytest.raises(ActionFailed) as caught,
    ):
        get(server.url)
    assert "404: \\x1b[2J\\x9bxxx" in str(caught.value)
    assert len(str(caught.value)) < 500


# Redirects.


@pytest.mark.parametrize(
    "target",
    ["http://[", "http://[::1/x", "http://h:99999/", "http://h:-1/", "http://h:port/", "http://h:²/", "http://h:0/",
     "", "file:///etc/passwd", "ftp://h/x", "javascript:x", "data:,x", "http://a..b/", "http://%zz/",
     "http://" + "a" * 64 + "/", "http://a b/", "http://ä/\x01", "http://[fe80::1%25%0a]/"],
)  # fmt: skip
def test_redirects_that_cannot_be_followed(get: Callable[..., bytes], target: str) -> None:
    with serving(b"HTTP/1.1 302 Found\r\nLocation: " + target.encode("latin-1") + b"\r\n\r\n") as server:
        with pytest.raises(ActionFailed, match="redirects to") as caught:
            get(server.url)
        assert (caught.value.cause, caught.value.transient) == ("data_file_missing", False)
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_download_is_resumed_through_redirects(get: Callable[..., bytes], status: int) -> None:
    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        if headers[":path"] == "/":
            return connection.sendall(head(f"{status} There", b"Location: /b%C3%A4 r?q=1#f\r\n"))
        return breaking(600_000)(connection, headers)

    with serving(answer) as server:
        assert get(server.url) == DATA
        assert [asked(each) for each in server.requests] == [0, 0, 600_000, 600_000, 1_200_000, 1_200_000]
        assert server.requests[1][":path"] == "/b%C3%A4%20r?q=1"


def test_a_redirect_loop(get: Callable[..., bytes]) -> None:
    with serving(head("302 Found", b"Location: /again\r\n")) as server:
        with pytest.raises(ActionFailed, match="leads through more than 10 redirects") as caught:
            get(server.url)
        assert not caught.value.transient
        assert len(server.requests) == 11


# Addresses.


@pytest.mark.parametrize(
    "uri",
    ["http://[::1/x", "http://[zz]/x", "http://h:99999/x", "http://h:-1/x", "http://h:port/x", "http://h:²/x",
     "http://h:0/x", "http:///x", "http://a..b/x", "http://a b/x", "http://h/\x01", "http://h/\ud800", "http://h\n/x",
     "http://" + "ü" * 64 + "/x", "http://℀/x", "http://" + "a." * 200 + "/x", "s3://[x", "s3://a/\0", "file:///a\0b"],
)  # fmt: skip
def test_invalid_addresses(job: ActionJob, tmp_path: Path, uri: str) -> None:
    with pytest.raises(ActionFailed, match=r"is not a valid (address|path)") as caught:
        download.run({"uri": uri, "path": str(tmp_path / "x")}, job)
    assert (caught.value.cause, caught.value.transient) == ("bad_config", False)
    str(caught.value).encode()
    assert str(caught.value).isprintable()


def test_an_address_with_characters_that_need_quoting(get: Callable[..., bytes]) -> None:
    with serving(head("200 OK", size(2)) + b"ok") as server:
        assert get(f"{server.url}/Käse und Brot?a=ä b#c") == b"ok"
        assert server.requests[0][":path"] == "/K%C3%A4se%20und%20Brot?a=%C3%A4%20b"


@pytest.mark.parametrize("proxy", ["http://[::1", "http://h:99999", "h:port"])
def test_an_invalid_proxy(get: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ActionFailed, match="the environment variable http_proxy is not valid") as caught:
        get("http://example.invalid/x")
    assert caught.value.cause == "bad_config"


# Time. A limit of a fraction of a second is enough: the servers here would go on for ever.


def drip(connection: socket.socket, start: bytes, again: bytes) -> None:
    """Send a little every few milliseconds while anybody reads."""
    connection.settimeout(0.01)
    connection.sendall(start)
    while True:
        connection.sendall(again)
        try:
            connection.recv(1)
            return
        except TimeoutError:
            continue


@pytest.mark.parametrize("start", [b"H", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 100 Continue\r\nX: "])
def test_headers_that_arrive_byte_by_byte(get: Callable[..., bytes], start: bytes) -> None:
    with serving(lambda connection, _: drip(connection, start, b"a")) as server:
        with pytest.raises(ActionFailed, match=r"no complete response within 0\.3 seconds|timed out") as caught:
            get(server.url, Backoff(tries=1), 0.3)
        assert caught.value.transient


def test_a_body_that_arrives_too_slowly_is_no_progress(get: Callable[..., bytes]) -> None:
    start = head("200 OK", TAG, size(1 << 20))
    with serving(lambda connection, _: drip(connection, start, b"a")) as server:
        with pytest.raises(ActionFailed, match="less than 1000 bytes a second") as caught:
            get(server.url, Backoff(tries=2, first_sec=0.001), 0.3)
        assert len(server.requests) == 2
        assert caught.value.transient


def test_all_redirects_share_one_time_limit(get: Callable[..., bytes]) -> None:
    def answer(connection: socket.socket, headers: dict[str, str]) -> None:
        connection.settimeout(0.25)
        with contextlib.suppress(TimeoutError):
            connection.recv(1)
        connection.sendall(head("302 Found", f"Location: {headers[':path']}x\r\n".encode()))

    with serving(answer) as server:
        with pytest.raises(ActionFailed, match=r"no complete response within 0\.6 seconds|timed out"):
            get(server.url, Backoff(tries=1), 0.6)
        assert len(server.requests) < 5


def test_a_server_that_does_not_speak_tls(get: Callable[..., bytes]) -> None:
    # It waits for a request. Which of the two limits is first depends on how busy the machine is.
    with serving() as server, pytest.raises(ActionFailed, match=r"timed out|no complete response") as caught:
        get(server.url.replace("http:", "https:"), Backoff(tries=1), 0.3)
    assert caught.value.transient


def test_silence(get: Callable[..., bytes]) -> None:
    def answer(connection: socket.socket, _headers: dict[str, str]) -> None:
        connection.sendall(head("200 OK", TAG, size(1 << 20)) + b"x" * 1000)
        connection.recv(1)

    with serving(answer) as server, pytest.raises(ActionFailed, match="timed out") as caught:
        get(server.url, Backoff(tries=1), 0.2)
    assert caught.value.transient


def test_an_address_that_does_not_answer_does_not_use_up_the_time_of_others(get: Callable[..., bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        port = deaf.getsockname()[1]
        held = [socket.socket() for _ in range(4)]
        for each in held:  # the queue is full: further ones get no answer
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        began = time.monotonic()
        with pytest.raises(ActionFailed, match="timed out") as caught:
            get(f"http://127.0.0.1:{port}/", Backoff(tries=1), 0.3)
        assert caught.value.transient
        assert time.monotonic() - began < 60
        for each in held:
            each.close()


def test_a_complete_download_leaves_no_version_file(get: Callable[..., bytes], tmp_path: Path, job: ActionJob) -> None:
    with serving(breaking(500_000)) as server:
        download.run({"uri": f"{server.url}/x", "path": str(tmp_path / "there/x"), "patience": QUICK._asdict()}, job)
    assert os.listdir(tmp_path / "there") == ["x"]
    assert (tmp_path / "there/x").read_bytes() == DATA


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if ".kedge-" in path.name]


def test_the_next_process_resumes_the_download(job: ActionJob, tmp_path: Path) -> None:
    parameters = {"path": str(tmp_path / "x"), "patience": {**QUICK._asdict(), "tries": 1}}
    with serving(breaking(800_000)) as server:
        with pytest.raises(ActionFailed):
            download.run({"uri": f"{server.url}/x", **parameters}, job)
        (folder,) = kept(tmp_path)
        assert sorted(os.listdir(folder)) == ["fetched", "fetched.version"]
        assert server.url not in (folder / "fetched.version").read_text()
        download.run({"uri": f"{server.url}/x", **parameters}, job)
        assert [asked(each) for each in server.requests] == [0, 800_000]
    assert (tmp_path / "x").read_bytes() == DATA
    assert not kept(tmp_path)


@pytest.mark.parametrize("what", ["a link", "another owner", "a second name", "a folder that others may write to"])
def test_files_planted_by_other_users_are_not_used(job: ActionJob, tmp_path: Path, what: str) -> None:
    parameters = {"path": str(tmp_path / "x"), "patience": {**QUICK._asdict(), "tries": 1}}
    with serving(breaking(800_000)) as server:
        with pytest.raises(ActionFailed):
            download.run({"uri": f"{server.url}/x", **parameters}, job)
        (folder,) = kept(tmp_path)
        file = folder / "fetched"
        if what == "a link":
            file.rename(tmp_path / "other")
            file.symlink_to(tmp_path / "other")
        elif what == "another owner":
            if os.geteuid():
                pytest.skip("only root can give files away")
            os.chown(file, 12345, 12345)
        elif what == "a second name":
            os.link(file, tmp_path / "other")
        else:
            folder.chmod(0o777)
        server.answer = breaking(1 << 30)
        download.run({"uri": f"{server.url}/x", **parameters}, job)
        assert [asked(each) for each in server.requests] == [0, 0]
    assert (tmp_path / "x").read_bytes() == DATA
    assert not kept(tmp_path)


def test_a_permanent_failure_leaves_no_files(job: ActionJob, tmp_path: Path) -> None:
    with serving(breaking(800_000)) as server:
        wanted = {"uri": f"{server.url}/x", "path": str(tmp_path / "x"), "max_bytes": 1000}
        with pytest.raises(ActionFailed, match="max_bytes"):
            download.run(wanted, job)
    assert not kept(tmp_path)
