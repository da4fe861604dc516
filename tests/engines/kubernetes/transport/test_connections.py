"""Servers that are not what they should be, and proxies."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kedge.engines.kubernetes import api as api_module
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.transport.endpoint import FixedProof, NotConfigured, ServerEndpoint, bearer
from kedge.jobs import link_keys
from kedge.testing import raw_server

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n"
    + b'{"major": "1", "minor": "20+"}   '
)


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    """The port of a server with a certificate of its own, and that certificate."""
    keys = link_keys.made()
    (tmp_path / "pem").write_text(keys.certificate + keys.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(65536)
                    connection.sendall(ANSWER)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], keys.certificate.encode()
        listener.shutdown(socket.SHUT_RDWR)


def api_of(server: str, **more: object) -> KubernetesApi:
    return KubernetesApi(ServerEndpoint(server, "team", **more))  # type: ignore[arg-type]


def test_a_certificate_that_is_not_trusted_is_named(tls_server: tuple[int, bytes]) -> None:
    with (
        closing(api_of(f"https://127.0.0.1:{tls_server[0]}")) as api,
        pytest.raises(ApiError, match=r"its certificate is not trusted: .*see certificate-authority"),
    ):
        api.version()


def test_the_check_of_a_certificate_can_be_left_out(tls_server: tuple[int, bytes]) -> None:
    with closing(api_of(f"https://127.0.0.1:{tls_server[0]}", verify=False)) as api:
        assert api.version() == (1, 20)


def test_a_damaged_authority_is_told() -> None:
    with (
        closing(api_of("https://127.0.0.1:1", ca=b"no certificate", source="config: context 'c'")) as api,
        pytest.raises(NotConfigured, match="config: context 'c': certificate-authority is no certificate"),
    ):
        api.version()


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1 cannot be reached: nothing listens there"),
        ("http://kedge-no-such-host.invalid", "its name is not known here"),
    ],
)
def test_a_server_that_is_not_there(server: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "CALL_SEC", 1.0)
    with closing(api_of(server)) as api, pytest.raises(ApiError, match=told) as error:
        api.version()
    assert error.value.status == 0
    assert error.value.unreachable


@pytest.mark.parametrize("server", ["ftp://host", "https://", "https://host:port"])
def test_an_address_that_is_none(server: str) -> None:
    with pytest.raises(NotConfigured, match="is not the address of an API server"):
        api_of(server)


def test_a_web_page_is_no_api_server() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>"
    with (
        raw_server.serving(page) as server,
        closing(api_of(server.url)) as api,
        pytest.raises(ApiError, match="what answers there is no API server of Kubernetes"),
    ):
        api.version()


def test_an_answer_that_is_cut_is_none() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    with raw_server.serving(cut) as server, closing(api_of(server.url)) as api:
        with pytest.raises(ApiError, match="cannot be reached"):
            api.create(obj)
        assert len(server.requests) == 1, "a creation is not repeated: it may have happened"


def test_the_proxy_of_the_kubeconfig_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server.serving(ANSWER) as proxy:
        with closing(api_of("http://api.example.org", proxy=proxy.url, proof=FixedProof(bearer("t")))) as api:
            assert api.version() == (1, 20)
        assert proxy.requests[0][":path"] == "http://api.example.org/version"
        assert proxy.requests[0]["authorization"] == "Bearer t"


def test_a_proxy_of_a_kind_that_is_not_known() -> None:
    with (
        closing(api_of("http://a", proxy="gopher://b")) as api,
        pytest.raises(NotConfigured, match="the proxy for http://a"),
    ):
        api.version()
