"""A registry of one image, on the loopback, that wants a password."""

from __future__ import annotations

import base64
import http.server
import json
import subprocess
import tarfile
import threading
import time
from pathlib import Path

USER, PASSWORD = "puller", "a-long-password"
_BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry(http.server.ThreadingHTTPServer):
    """Serves `image` of this machine's engine as `name`. `manifests` counts how often that was asked for."""

    daemon_threads = True

    def __init__(self, folder: Path, image: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        archive = folder / "image.tar"
        subprocess.run(["podman", "save", "--format", "oci-archive", "--output", archive, image], check=True)
        self.blobs: dict[str, bytes] = {}
        with tarfile.open(archive) as tar:
            for member in filter(tarfile.TarInfo.isfile, tar):
                file = tar.extractfile(member)
                assert file is not None
                self.blobs[member.name.removeprefix("blobs/sha256/")] = file.read()
        self.digest = json.loads(self.blobs["index.json"])["manifests"][0]["digest"].removeprefix("sha256:")
        self.manifests = 0
        self.silent = threading.Event()  # while it is set, no blob is sent
        self.address = f"localhost:{self.server_port}"
        self.name = f"{self.address}/team/image:1"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != _BASIC:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="registry"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        is_manifest = "/manifests/" in self.path
        self.server.manifests += is_manifest and self.command == "GET"
        while self.server.silent.is_set() and not is_manifest and self.path != "/v2/":
            time.sleep(0.05)
        digest = self.server.digest if is_manifest else self.path.rpartition(":")[2]
        body = b"{}" if self.path == "/v2/" else self.server.blobs[digest]
        self.send_response(200)
        self.send_header("Content-Type", _MANIFEST if is_manifest else "application/octet-stream")
        self.send_header("Docker-Content-Digest", f"sha256:{digest}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        return
