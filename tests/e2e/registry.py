"""A registry of one image on the loopback interface. It can require a password and fail like real ones."""

from __future__ import annotations

import base64
import http.server
import json
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

USER, PASSWORD = "puller", "a-long-password"
_BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry(http.server.ThreadingHTTPServer):
    """Serves `image` of this machine's engine as `name`. `manifests` counts how often that was asked for.

    `private`: for those who know the password. While `silent` is set, no blob is sent. The next `refusals` requests for
    the manifest are answered with `refusal`, a status and headers, and no body."""

    daemon_threads = True

    def __init__(self, folder: Path, image: str, private: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._folder, self.private = folder, private
        self.blobs: dict[str, bytes] = {}
        self.tag(image)
        self.manifests = self.refusals = 0
        self.refusal: tuple[int, dict[str, str]] = (429, {})
        self.silent = threading.Event()
        self.address = f"localhost:{self.server_port}"
        self.name = f"{self.address}/team/image:1"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def tag(self, image: str) -> None:
        """Let the name refer to another image; the previous one stays available by its digest."""
        archive = self._folder / "image.tar"
        archive.unlink(missing_ok=True)
        subprocess.run(["podman", "save", "--quiet", "--format", "oci-archive", "--output", archive, image], check=True)
        with tarfile.open(archive) as tar:
            self.blobs |= dict(_files(tar))
        self.digest = json.loads(self.blobs["index.json"])["manifests"][0]["digest"].removeprefix("sha256:")


def _files(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in filter(tarfile.TarInfo.isfile, tar):
        file = tar.extractfile(member)
        assert file is not None
        yield member.name.removeprefix("blobs/sha256/"), file.read()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        registry = self.server
        if registry.private and self.headers.get("Authorization") != _BASIC:
            self._answer(401, {"WWW-Authenticate": 'Basic realm="registry"'})
            return
        is_manifest = "/manifests/" in self.path
        registry.manifests += is_manifest and self.command == "GET"
        if is_manifest and registry.refusals:
            registry.refusals -= 1
            self._answer(*registry.refusal)
            return
        while registry.silent.is_set() and not is_manifest and self.path != "/v2/":
            time.sleep(0.05)
        asked = self.path.rpartition("/")[2].removeprefix("sha256:")
        digest = registry.digest if is_manifest and asked not in registry.blobs else asked
        body = b"{}" if self.path == "/v2/" else registry.blobs[digest]
        kind = _MANIFEST if is_manifest else "application/octet-stream"
        self._answer(200, {"Content-Type": kind, "Docker-Content-Digest": f"sha256:{digest}"}, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        return
