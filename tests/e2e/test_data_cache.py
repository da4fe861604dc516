"""Downloads of containers: shared by all of a user's jobs, and out of reach of every task."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge

DATA = os.urandom(100_000)
SUM = hashlib.sha256(DATA).hexdigest()


class Served(http.server.ThreadingHTTPServer):
    """A server of one file that counts requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = 0
        self.uri = f"http://127.0.0.1:{self.server_port}/set.bin"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Served

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA)

    log_message = functools.partialmethod(lambda *_: None)


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_tasks_share_downloads_and_cannot_change_them(
    in_containers: Callable[[str], Kedge], served: Served, tmp_path: Path
) -> None:
    kedge = in_containers("busybox")
    cache = tmp_path / "cache"
    kedge.environment["XDG_CACHE_HOME"] = str(cache)
    (cache / "kedge").mkdir(parents=True)
    shared = Path(in_containers("busybox").environment["XDG_CACHE_HOME"], "kedge", "bundles")
    shared.mkdir(parents=True, exist_ok=True)
    (cache / "kedge" / "bundles").symlink_to(shared)  # the runtime is built once for all tests

    def run(name: str, *commands: str, **keys: Any) -> None:
        item = {"name": "set", "type": "data", "uri": served.uri, "sha256": SUM, "path": "/tmp/set"}
        prerequisites = [item, *keys.get("prerequisites", ())]
        roles = {"worker": {"prerequisites": ["set", *(one["name"] for one in keys.get("prerequisites", ()))]}}
        check = f"echo '{SUM}  /tmp/set' | sha256sum -c"
        job = kedge.job([check, *commands], name=name, prerequisites=prerequisites, roles=roles)
        kedge("run", job, "--network", "host")

    given, own = "/usr/local/pai/data-cache", "/usr/local/pai/data-fetched"
    held = f"(flock -n {given}/{SUM} sleep 1000 &) 2>/dev/null"
    swap = f"mkfifo {own}/{'a' * 64}; rm -f {own}/{SUM}; mkfifo {own}/{SUM}"
    run("first")
    wait_until((cache / "kedge/data" / SUM).exists, TIMEOUT)
    assert served.asked == 1
    run("hostile", f"! touch {given}/x; ! rm {given}/{SUM}; ! mkfifo {given}/y; {held}; {swap}")
    run("third")
    assert served.asked == 1
    assert (cache / "kedge/data" / SUM).read_bytes() == DATA
    assert f"1 data file, {len(DATA)} bytes in {cache}/kedge/data" in kedge("cache").stdout
    (cache / "kedge/data" / SUM).unlink()
    os.mkfifo(cache / "kedge/data" / SUM)
    run("fourth")
    assert served.asked == 2
    assert (cache / "kedge/data" / SUM).read_bytes() == DATA
    kedge("cache", "--prune", "--days", "1")
    assert (cache / "kedge/data" / SUM).exists()
    (cache / "kedge" / "bundles").unlink()  # of all tests
    assert "deleted 1 data file" in kedge("cache", "--prune").stdout
    assert not list((cache / "kedge/data").iterdir())
