"""Downloads over TLS in several kinds of images: which authorities the bundle trusts."""

from __future__ import annotations

import http.server
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kedge.contract import TASK_STARTS, Action, Callback, Step

from .conftest import IN_CONTAINERS, TASK, Done, Run, task_spec

pytestmark = IN_CONTAINERS


class Server(NamedTuple):
    """`authority` is the file of its certificate."""

    port: int
    authority: Path


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"data\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a certificate that no distribution trusts."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as served:
        served.socket = context.wrap_socket(served.socket, server_side=True)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield Server(served.server_port, certificate)
        served.shutdown()


def download(run: Run, image: str, server: Server, *options: str) -> Done:
    # By a name that every image knows: there may be no /etc/hosts.
    uri = f"https://localhost:{server.port}/file"
    action = Action("download", {"uri": uri, "path": f"{TASK}/fetched", "patience": {"tries": 1}})
    spec = task_spec(f"cat {TASK}/fetched", Step("data", (Callback(TASK_STARTS, (), action),)))
    return run(image, spec, "--network", "host", *options)


@pytest.mark.parametrize(
    "place",
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"],
)
def test_authorities_of_the_image_are_trusted(place: str, server: Server, bare: str, run: Run) -> None:
    done = download(run, bare, server, "-v", f"{server.authority}:{place}:ro")
    assert (done.code, done.output) == (0, "data\n"), done.log


def test_ssl_cert_file_of_the_image_counts(server: Server, bare: str, run: Run) -> None:
    done = download(run, bare, server, "-v", f"{server.authority}:/own.pem:ro", "--env", "SSL_CERT_FILE=/own.pem")
    assert (done.code, done.output) == (0, "data\n"), done.log


def test_other_authorities_are_not_trusted(server: Server, bare: str, run: Run) -> None:
    done = download(run, bare, server)
    assert done.report["reason"] == "hook-failed"
    assert "certificate verify failed" in done.log
    assert "unable to get local issuer" in done.log or "self-signed" in done.log


def test_without_authorities_in_the_image_the_bundles_own_are_used(bare: str, run: Run) -> None:
    """It has the authorities of certifi, not none."""
    program = (
        "import sys; sys.path.append(sys.prefix + '/site');"
        "from kedge.certificate_authorities import context; print(len(context().get_ca_certs()))"
    )
    done = run(bare, task_spec("true"), start=("/usr/local/pai/kedge/bin/python3", "-I", "-S", "-c", program))
    assert int(done.said) > 50
