"""One HTTP request of the init phase, against real servers that answer well, badly, slowly or never."""

from __future__ import annotations

import http.server
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kedge import certificate_authorities
from kedge.dropin.net import http_addresses, http_proxies
from kedge.dropin.net.http_client import HttpFailed, Limits, Tls, request
from kedge.testing.raw_server import RawServer, reset, serving

from .tls_servers import Certificate, certificate, serving_http

SRC = Path(__file__).parents[2] / "src"
DIRECT: dict[str, str] = {}  # no proxies, whatever this machine uses
SHORT = Limits(operation_sec=0.3, total_sec=0.6, body_bytes=1000)
SMALL = Limits(body_bytes=1000)


def get(url: str, **options: object) -> bytes:
    return request("GET", url, **({"environment": DIRECT} | options)).body  # type: ignore[arg-type]


def failure(url: str, **options: object) -> str:
    with pytest.raises(HttpFailed) as caught:
        get(url, **options)
    return str(caught.value)


@pytest.fixture
def server() -> Iterator[RawServer]:
    with serving() as running:
        yield running


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhimore", b"hi"),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", b"hi"),
        (b"HTTP/1.0 200\r\n\r\nto the end", b"to the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n",
         b"hi0123456789"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi", b""),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nbad", b"bad"),
    ],
)  # fmt: skip
def test_bodies_end_as_the_answer_describes(answer: bytes, body: bytes, server: RawServer) -> None:
    server.answer = answer
    assert get(server.url) == body


def test_the_request_is_as_given(server: RawServer) -> None:
    server.answer = b"HTTP/1.1 401 Who are you\r\nWww-Authenticate: Basic\r\nWWW-Authenticate: Bearer a=b\r\n\r\n"
    url = f"http://user:secret@127.0.0.1:{server.port}/v2/ä?x=1#part"
    response = request("HEAD", url, headers={"Authorization": "Basic eA=="}, environment=DIRECT)
    assert (response.status, response.reason) == (401, "Who are you")
    assert response.values("www-authenticate") == ["Basic", "Bearer a=b"]
    sent = server.requests[0]
    assert sent[":path"] == "/v2/%C3%A4?x=1"
    assert sent["host"] == f"127.0.0.1:{server.port}"
    assert (sent["authorization"], sent["connection"]) == ("Basic eA==", "close")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "closes before the answer is complete"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhi", "ends after 2 of 500 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", "Content-Length is not valid"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", "larger than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001, "larger than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", "larger than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n", "size of a chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhihi\r\n", "does not end where it should"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "transfer encoding 'gzip' is not supported"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "a header of the answer is not valid"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000, "a line of the answer is too long"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: 1234567890\r\n" * 7000, "a line of the answer is too long"),
        (b"HTTP/1.1 100 C\r\n\r\n" * 20, "too many interim responses"),
    ],
)
def test_a_malformed_answer_is_an_error_in_words(answer: bytes, message: str, server: RawServer) -> None:
    server.answer = answer
    text = failure(f"{server.url}/x?secret", limits=SMALL)
    assert text.startswith(f"{server.url}/x gives no valid answer: ")
    assert message in text


def test_control_characters_of_a_server_are_escaped(server: RawServer) -> None:
    server.answer = b"HTTP/1.1 403 \x1b[2Jgone\r\nContent-Length: 0\r\n\r\n"
    assert request("GET", server.url, environment=DIRECT).reason == "\\x1b[2Jgone"


def test_a_silent_server_is_given_up(server: RawServer) -> None:
    def wait(connection: socket.socket, _: dict[str, str]) -> None:
        connection.recv(1)

    server.answer = wait
    assert failure(server.url, limits=SHORT).endswith("cannot be reached: no answer within 0.3 seconds")


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"])
def test_a_server_that_sends_single_bytes_is_given_up(start: bytes, server: RawServer) -> None:
    def trickle(connection: socket.socket, _: dict[str, str]) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    server.answer = trickle
    assert failure(server.url, limits=SHORT).endswith("no complete answer within 0.6 seconds")


def test_a_full_queue_of_connections_is_given_up() -> None:
    """The server accepts nothing: a connection to a full queue stays without an answer."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        with socket.create_connection(listening.getsockname()):
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            assert failure(url, limits=SHORT).endswith("no answer within 0.3 seconds")


def test_reset_refused_and_unknown_names() -> None:
    with serving(lambda connection, _: reset(connection)) as server:
        assert "cannot be reached: Connection reset by peer" in failure(server.url)
    assert failure(server.url) == f"{server.url}/ cannot be reached: Connection refused"
    assert "http://no.such.invalid/ cannot be reached: its name cannot be resolved" in failure("http://no.such.invalid")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("registry/x", "'registry/x' is not a valid address: it must start with http:// or https://"),
        ("ftp://me:pw@host/x?y", "'ftp://host/x' is not a valid address: it must start with http:// or https://"),
        ("http://", "'http://' is not a valid address: the host is missing"),
        ("http://host:0/", "its port is not a number from 1 to 65535"),
        ("http://host:99999999999/", "its port is not a number from 1 to 65535"),
        ("http://ho st/", "it contains a blank or a control character"),
        ("http://[::1/", "the brackets around its host are wrong"),
        ("http://a..ä/", "its host is not a valid name"),
    ],
)
def test_invalid_addresses(url: str, message: str) -> None:
    assert message in failure(url)


def test_a_header_cannot_smuggle_another(server: RawServer) -> None:
    text = failure(server.url, headers={"Authorization": "Bearer x\r\nX-Evil: 1"})
    assert "the value of the header Authorization has characters that are not allowed" in text
    assert "Evil" not in text
    assert not server.requests


def redirect(location: str, answer: bytes) -> Callable[[socket.socket, dict[str, str]], None]:
    def respond(connection: socket.socket, headers: dict[str, str]) -> None:
        elsewhere = f"HTTP/1.1 307 R\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n".encode()
        connection.sendall(answer if headers[":path"] == "/there" else elsewhere)

    return respond


def test_redirects_are_followed_without_credentials_for_others(server: RawServer) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    with serving(answer) as other:
        for location in ("/there", "there"):
            server.answer = redirect(location, answer)
            assert get(f"{server.url}/here", headers={"Authorization": "x"}, redirects=1) == b"hi"
            assert server.requests[-1]["authorization"] == "x"
        for location in (f"{other.url}/there", f"//127.0.0.1:{other.port}/there"):
            server.answer = redirect(location, answer)
            assert get(f"{server.url}/here", headers={"Authorization": "x"}, redirects=1) == b"hi"
            assert "authorization" not in other.requests[-1]


def test_redirects_are_limited(server: RawServer) -> None:
    server.answer = redirect("/here", b"")
    response = request("GET", server.url, redirects=3, environment=DIRECT)
    assert (response.status, len(server.requests)) == (307, 4)
    server.answer = redirect("file:///etc/passwd", b"")
    assert "redirects to an address that cannot be followed: it must start with" in failure(server.url, redirects=1)


class Hello(http.server.BaseHTTPRequestHandler):
    """Answers every request with `hello`."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Print no log."""


def test_tls_with_given_authorities(own_certificate: Certificate, tmp_path: Path) -> None:
    other = certificate(tmp_path, "other", "DNS:elsewhere")
    with serving_http(Hello, own_certificate) as url:
        assert get(url, tls=Tls(ca=own_certificate.pem)) == b"hello"
        assert get(url, tls=Tls(verify=False)) == b"hello"
        assert f"{url}/ cannot be reached: its certificate is not trusted: self" in failure(url)
        assert "its certificate is not trusted" in failure(url, tls=Tls(ca=other.pem))
        text = failure(url, tls=Tls(ca=own_certificate.pem, name="elsewhere"))
        assert "its certificate is not trusted: Hostname mismatch" in text
        assert "cannot be " in failure(url, tls=Tls(ca=b"no certificate"))
    with serving_http(Hello, other) as url:
        assert "its certificate is not trusted: IP address mismatch" in failure(url, tls=Tls(ca=other.pem))
        assert get(url, tls=Tls(ca=other.pem, name="elsewhere")) == b"hello"
    with serving_http(Hello) as url:
        assert "TLS fails: " in failure(url.replace("http", "https"))


def test_tls_with_the_usual_authorities(
    own_certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable comes first. A folder in the form of distributions is searched, and not read as a whole."""
    command = ["openssl", "x509", "-hash", "-noout", "-in", str(own_certificate.file)]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    (tmp_path / f"{name}.0").write_bytes(own_certificate.pem)
    with serving_http(Hello, own_certificate) as url:
        monkeypatch.delenv("SSL_CERT_DIR", raising=False)
        monkeypatch.setenv("SSL_CERT_FILE", str(own_certificate.file))
        assert get(url) == b"hello"
        monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
        assert "its certificate is not trusted" in failure(url)
        monkeypatch.setattr(certificate_authorities, "_IMAGE_FOLDER", str(tmp_path))
        monkeypatch.setattr(certificate_authorities, "_is_hashed", lambda folder: folder == str(tmp_path))
        assert get(url) == b"hello"


def test_a_client_shows_its_certificate(own_certificate: Certificate, tmp_path: Path) -> None:
    client = certificate(tmp_path, "client")
    trusted = Tls(ca=own_certificate.pem)
    with serving_http(Hello, own_certificate, client) as url:
        assert get(url, tls=trusted._replace(client=client.both)) == b"hello"
        assert "cannot be reached" in failure(url, tls=trusted)
        assert "TLS fails" in failure(url, tls=trusted._replace(client=client.pem))


def test_a_tls_handshake_that_never_ends_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        assert failure(url, limits=SHORT, tls=Tls(verify=False)).endswith("no answer within 0.3 seconds")


def test_requests_go_through_proxies() -> None:
    with serving(b"HTTP/1.1 200 OK\r\n\r\nby proxy") as proxy:
        variables = {"http_proxy": f"http://me:p%40ss@127.0.0.1:{proxy.port}"}
        assert get("http://registry.test/v2/", environment=variables) == b"by proxy"
        assert proxy.requests[0][":path"] == "http://registry.test/v2/"
        assert proxy.requests[0]["proxy-authorization"] == "Basic bWU6cEBzcw=="
        upper = {"HTTPS_PROXY": f"127.0.0.1:{proxy.port}"}
        proxy.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
        text = failure("https://registry.test/", environment=upper)
        assert text.endswith(f"the proxy 127.0.0.1:{proxy.port} answers 407 Proxy Authentication Required")
        assert proxy.requests[1][":path"] == "registry.test:443"


@pytest.mark.parametrize(
    ("exceptions", "hosts"),
    [
        ("*", ("any.test", "10.0.0.1")),
        ("some.test, .other.test", ("some.test", "deep.some.test", "x.other.test")),
        ("*.some.test", ("deep.some.test",)),
        ("10.0.0.0/8,fd00::/8", ("10.1.2.3", "[fd00::1]")),
        ("10.0.0.1:80", ("10.0.0.1",)),
        ("", ("localhost", "127.0.0.2", "[::1]")),
    ],
)
def test_some_requests_take_no_proxy(exceptions: str, hosts: tuple[str, ...]) -> None:
    variables = {"http_proxy": "http://proxy.test:1", "no_proxy": exceptions}
    assert [http_proxies.proxy_for(http_addresses.parse(f"http://{host}/"), variables) for host in hosts] == [
        None for _ in hosts
    ]


@pytest.mark.parametrize(
    ("exceptions", "host"),
    [
        ("some.test", "awesome.test"),
        ("10.0.0.0/8", "11.0.0.1"),
        ("10.0.0.1:81", "10.0.0.1"),
        ("10.0.0.0/x", "10.0.0.0"),
    ],
)
def test_other_requests_take_the_proxy(exceptions: str, host: str) -> None:
    variables = {"http_proxy": "http://proxy.test:1", "no_proxy": exceptions}
    proxy = http_proxies.proxy_for(http_addresses.parse(f"http://{host}/"), variables)
    assert proxy
    assert proxy.authority == "proxy.test:1"


def test_tls_goes_through_a_tunnel(own_certificate: Certificate) -> None:
    with serving_http(Hello, own_certificate) as url:
        port = int(url.rpartition(":")[2])

        def tunnel(connection: socket.socket, _: dict[str, str]) -> None:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with socket.create_connection(("127.0.0.1", port)) as behind:
                join(connection, behind)

        with serving(tunnel) as proxy:
            tls = Tls(ca=own_certificate.pem, name="localhost")
            assert get("https://behind.test", environment={"all_proxy": proxy.url}, tls=tls) == b"hello"
            assert proxy.requests[0][":path"] == "behind.test:443"


def join(one: socket.socket, other: socket.socket) -> None:
    """Pass data between two connections until one of them ends."""
    while True:
        for ready in select.select([one, other], [], [], 10)[0] or [one]:
            if not (data := ready.recv(65536)):
                return
            (other if ready is one else one).sendall(data)


@pytest.mark.parametrize("value", ["socks5://127.0.0.1:1", "http://host:x"])
def test_a_bad_proxy_is_named(value: str) -> None:
    text = failure("http://registry.test/", environment={"all_proxy": value})
    assert "the environment variable all_proxy is not valid" in text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nothing_heavy_is_loaded_for_http(host: str, server: RawServer) -> None:
    server.answer = b"HTTP/1.1 200 OK\r\n\r\n"
    program = "import sys; before = set(sys.modules); {}; print(*sorted(set(sys.modules) - before))"
    request = f"kedge.dropin.net.http_client.request('GET', 'http://{host}:{server.port}', environment={{}})"
    load = program.format(f"sys.path.insert(0, {str(SRC)!r}); import kedge.dropin.net.http_client; {request}")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", load], capture_output=True, text=True, check=True)
    heavy = {"ssl", "socket", "http", "urllib", "email", "threading", "re", "json", "typing", "dataclasses", "enum"}
    heavy |= {"encodings.idna"}
    loaded = set(done.stdout.split())
    assert not (loaded | {name.partition(".")[0] for name in loaded}) & heavy


def test_an_ipv6_address() -> None:
    try:
        listening = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("there is no IPv6 here")
    port = listening.getsockname()[1]
    listening.close()
    assert failure(f"http://[::1]:{port}/x") == f"http://[::1]:{port}/x cannot be reached: Connection refused"
