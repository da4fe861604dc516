"""Whatever the name of an image is and whatever servers answer: the check ends with a reason and shows no secret."""

from __future__ import annotations

import base64
import json
import socket
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge import http_challenges, image_names
from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import init_paths
from kedge.dropin.program import InitContext
from kedge.dropin.registry import addresses, asking, image_checker
from kedge.testing.raw_server import RawServer, serving

PASSWORD = "pass<&>word"
BASIC = base64.b64encode(f"puller:{PASSWORD}".encode())
PIECES = [
    "a", "B", "0", "_", "__", ".", "-", "--", "/", "//", ":", "@", ":5000", ":99999", "localhost", "reg.io", "[::1]",
    "[", "]", "sha256:", "a" * 64, "0" * 128, "sha512:", "+", "://", "http://", "https://", "ftp://", "v1", "v2",
    "docker.io",
    " ", "\n", "\0", "ä", "\u0661", "\ud800", "~", "%", "?", "#", "\\", '"',
]  # fmt: skip
names = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
WORDS = [
    b"Basic", b"bearer", b"Negotiate YWJj==", b" ", b",", b"=", b'"', b"\\", b"realm=", b'realm="URL/t"',
    b'realm="URL"',
    b'scope="a,b"', b'realm="http://192.0.2.1/"', b"service=x", b'error="e', b"\xff", b"\t", b'realm="/t"',
    b'realm="http://["',
]  # fmt: skip
challenges = st.lists(st.sampled_from(WORDS), max_size=6).map(b"".join)
lines = st.one_of(
    st.tuples(st.just(b"WWW-Authenticate: "), challenges).map(b"".join),
    st.sampled_from(
        [b"Location: URL/x", b"Location: //", b"Location: http://[", b"Retry-After: 1_0", b"Retry-After: \xb2",
         b"Content-Length: 5", b"Content-Length: -1", b"X", b": y", b"Transfer-Encoding: chunked"]
    ),
)  # fmt: skip
statuses = st.sampled_from(
    [
        b"200 OK",
        b"401 No",
        b"404 X",
        b"403 F",
        b"429 B",
        b"503 B",
        b"302 F",
        b"307 T",
        b"405 M",
        b"501 N",
        b"204",
        b"999 ?",
    ]
)
bodies = st.sampled_from([b"", b'{"token":"t"}', b'{"access_token":"\\r\\nX: y"}', b"[" * 9000, b'{"token":', b"\xff"])
answers = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda s, h, b: b"\r\n".join([b"HTTP/1.1 " + s, *h, b"", b]), statuses, st.lists(lines, max_size=3), bodies
    ),
)


@given(names)
@settings(max_examples=150)
def test_any_name(text: str) -> None:
    try:
        name = image_names.parse(text)
    except ValueError as error:
        assert str(error).isprintable()
        return
    registry = f"{name.registry}/" if name.registry is not None else ""
    tag, digest = f":{name.tag}" if name.tag else "", f"@{name.digest}" if name.digest else ""
    assert f"{registry}{name.repository}{tag}{digest}" in (text, f"library/{text}")
    assert image_names.without_tag(text) == text.partition("@")[0].removesuffix(tag)
    for address in addresses.of_image(name.registry):
        assert address.isascii()
        assert address.endswith("/v2/")


@given(names, names)
@settings(max_examples=150)
def test_any_address(text: str, registry: str) -> None:
    try:
        address = addresses.normal(text)
    except ValueError as error:
        assert str(error)
        return
    assert addresses.normal(address) == address
    if image_names.is_host(registry):
        for found in addresses.of_credentials(text, registry):
            assert found in (address, addresses.HUB) or addresses.of_image(registry)


@given(st.lists(st.one_of(challenges.map(lambda data: data.decode("latin-1")), st.text(max_size=20)), max_size=3))
@settings(max_examples=150)
def test_any_challenge(headers: list[str]) -> None:
    try:
        found = http_challenges.parse(headers)
    except ValueError as error:
        assert str(error)
        return
    assert all(each.scheme == each.scheme.lower() for each in found)


@given(st.dictionaries(st.sampled_from(["realm", "scope", "service"]), st.text(max_size=20), min_size=1))
def test_what_is_written_is_read(parameters: dict[str, str]) -> None:
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in parameters.items()}
    header = ", ".join(f'{name.upper()} = "{value}"' for name, value in quoted.items())
    found = http_challenges.parse([f"Basic realm=x,Bearer {header}"])
    assert found[1] == http_challenges.Challenge("bearer", parameters)


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with serving() as running:
        yield running


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_PAUSES_SEC", (0.0, 0.0))
    monkeypatch.setattr(asking, "_LONGEST_PAUSE_SEC", 0.0)


@given(st.lists(answers, min_size=1, max_size=6))
@settings(max_examples=100)
@pytest.mark.usefixtures("no_pauses")
def test_any_answers(server: RawServer, sent: list[bytes]) -> None:
    left = [data.replace(b"URL", server.url.encode()) for data in sent]

    def respond(connection: socket.socket, _headers: dict[str, str]) -> None:
        connection.sendall(left.pop(0) if left else b"HTTP/1.1 200 OK\r\n\r\n")

    server.answer = respond
    uri = f"127.0.0.1:{server.port}/x"
    auth = {"username": "puller", "password": PASSWORD, "registryuri": server.url}
    environment = {"RUNTIME_CONFIG": json.dumps({"image": {"uri": uri, "auth": auth}})}
    with tempfile.TemporaryFile() as log:
        context = InitContext(init_paths(environment), environment, InitLog([log.fileno()]))
        code = image_checker.run([], context)
        log.seek(0)
        written = log.read()
    last = written.splitlines()[-1]
    assert code == (b" - ERROR - " in last)
    assert not code or b" 401 " in b"".join(sent)
    assert PASSWORD.encode() not in written
    assert BASIC not in written
    assert all(b" - " in line for line in written.splitlines()), "each line of the log is the checker's"
