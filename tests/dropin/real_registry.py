"""Debian's docker-registry on the loopback interface, with a tiny image, and a server that gives tokens for it."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import re
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from kedge.testing.wait import wait_until

from .tls_servers import Certificate, serving_http

USER, PASSWORD = "puller", "a-long-pass&word"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_HTPASSWD = "puller:$2y$04$96W4Mr/g72TV3APlj8fr7eAmKWOgAwNb0z4CKdlpWGHHEsc.I1ZDi\n"  # the hash of the password
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
TAGS = {OCI_INDEX: "oci-index", OCI_MANIFEST: "Oci_Manifest", DOCKER_LIST: "docker-list", DOCKER_MANIFEST: "latest"}
REPOSITORIES = ("team/public", "team/private")


@contextmanager
def registry(folder: Path, storage: Path, auth: object = None, tls: Certificate | None = None) -> Iterator[str]:
    """The address of a registry, host and port, that serves the images in `storage`."""
    listen: dict[str, object] = {"addr": "127.0.0.1:0"}
    if tls:
        listen["tls"] = {"certificate": str(tls.file), "key": str(tls.key)}
    config = {"version": "0.1", "storage": {"filesystem": {"rootdirectory": str(storage)}}, "http": listen}
    file = folder / "config.yml"
    file.write_text(json.dumps(config | ({"auth": auth} if auth else {})))
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(["docker-registry", "serve", file], stdout=output, stderr=output)
    try:
        found = wait_until(lambda: re.search(r"listening on 127\.0\.0\.1:(\d+)", log.read_text()), what=str(log))
        yield f"127.0.0.1:{found[1]}"
    finally:
        process.terminate()
        process.wait()


def basic(folder: Path) -> object:
    """The configuration of a registry that wants the password."""
    file = folder / "htpasswd"
    file.write_text(_HTPASSWD)
    return {"htpasswd": {"realm": "a, b=c", "path": str(file)}}


def tokens(realm: str, trusted: Certificate) -> object:
    """The configuration of a registry that wants tokens."""
    return {
        "token": {"realm": f"{realm}/token", "service": "tests", "issuer": "tests", "rootcertbundle": str(trusted.file)}
    }


def push(address: str) -> str:
    """Push all kinds of manifests to every repository of an open registry. Returns the digest of the OCI index."""
    digest = ""
    with httpx.Client(base_url=f"http://{address}/v2/") as client:
        for repository in REPOSITORIES:
            config = _blob(client, repository, b"{}")
            layer = _blob(client, repository, b"layer")
            for manifest, index in ((OCI_MANIFEST, OCI_INDEX), (DOCKER_MANIFEST, DOCKER_LIST)):
                kinds = ("oci.image.config.v1+json", "oci.image.layer.v1.tar")
                content = {
                    "schemaVersion": 2,
                    "mediaType": manifest,
                    "config": _descriptor(f"application/vnd.{kinds[0]}", config),
                    "layers": [_descriptor(f"application/vnd.{kinds[1]}", layer)],
                }
                inner = _manifest(client, repository, manifest, content)
                platform = {"architecture": "amd64", "os": "linux"}
                listed = {"schemaVersion": 2, "mediaType": index, "manifests": [inner | {"platform": platform}]}
                outer = _manifest(client, repository, index, listed)
                digest = str(outer["digest"]) if index == OCI_INDEX else digest
    return digest


def _blob(client: httpx.Client, repository: str, data: bytes) -> bytes:
    place = client.post(f"{repository}/blobs/uploads/").headers["Location"]
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    client.put(place, params={**httpx.URL(place).params, "digest": digest}, content=data).raise_for_status()
    return data


def _manifest(client: httpx.Client, repository: str, kind: str, content: object) -> dict[str, object]:
    data = json.dumps(content).encode()
    target = f"{repository}/manifests/{TAGS[kind]}"
    client.put(target, content=data, headers={"Content-Type": kind}).raise_for_status()
    return _descriptor(kind, data)


def _descriptor(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


class TokenServer(NamedTuple):
    """`requests` has the path and the header Authorization of every request. `names` are the keys under which a reply
    has the token."""

    url: str
    requests: list[tuple[str, str | None]]
    names: list[str]


@contextmanager
def token_server(signer: Certificate, tls: Certificate | None = None) -> Iterator[TokenServer]:
    """A server that gives tokens to pull from repositories: anybody's for team/public, the user's for all."""
    requests: list[tuple[str, str | None]] = []
    names = ["token", "access_token"]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization")
            requests.append((self.path, given))
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
            token = _token(signer, query, given == BASIC)
            status = 200 if given in (None, BASIC) else 401
            body = json.dumps(dict.fromkeys(names, token) if status == 200 else {"details": given}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with serving_http(Handler, tls) as url:
        yield TokenServer(url, requests, names)


def _token(signer: Certificate, query: dict[str, str], known: bool) -> str:
    """A JSON web token as docker-registry wants it, signed by OpenSSL."""
    kind, repository, actions = query["scope"].split(":")
    granted = actions.split(",") if known or repository == "team/public" else []
    now = int(time.time())
    pem = "".join(signer.file.read_text().splitlines()[1:-1])
    header = {"typ": "JWT", "alg": "RS256", "x5c": [pem]}
    claims = {"iss": "tests", "sub": "", "aud": query["service"], "exp": now + 600, "nbf": now - 60, "iat": now}
    access = [{"type": kind, "name": repository, "actions": granted}] if granted else []
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims | {"jti": "1", "access": access}))
    command = ["openssl", "dgst", "-sha256", "-sign", signer.key]
    signature = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
    return f"{text}.{_encoded(signature)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
