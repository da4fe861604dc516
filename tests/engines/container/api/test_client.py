"""How the engine's client reports errors, and which it lets pass."""

from __future__ import annotations

import socketserver
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import urllib3

from kedge.engines.container.api import client
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import EngineGone, EngineRefused
from kedge.engines.container.images.images import Images

from ..rendering.test_render import planned
from ..serving import answer, serving

RACE = 'reading image "7dc0": locating image with ID "7dc0": image not known'


class Engine(socketserver.ThreadingUnixStreamServer):
    """A fake engine with one image, which it fails to look at so many times for this reason."""

    daemon_threads = True
    failures = 0
    reason = RACE
    ping = 200
    connections = 0

    def __init__(self, path: str) -> None:
        self.paths: list[str] = []
        super().__init__(path, _Handler)

    def get_request(self) -> Any:
        self.connections += 1
        return super().get_request()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open
    server: Engine

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        if self.path == "/_ping":
            self.send_response_only(self.server.ping)
            for name, value in (("Api-Version", "1.40"), ("Libpod-API-Version", "4.3.1"), ("Content-Length", "0")):
                self.send_header(name, value)
            return self.end_headers()
        self.server.failures -= 1
        if self.server.failures >= 0:
            return answer(self, {"message": self.server.reason}, 500)
        image = {"Id": "sha256:1", "Architecture": "amd64"}
        return answer(self, [image] if "/images/json" in self.path else image)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with serving(Engine(str(tmp_path / "s"))) as made:
        yield made


def test_requests_one_after_the_other_share_a_connection(engine: Engine, tmp_path: Path) -> None:
    connected = Client(f"unix://{tmp_path}/s")
    assert all(map(connected.image, ("one", "two", "three")))
    assert engine.connections == 1


def test_the_tasks_of_an_attempt_share_what_is_known_of_an_image(engine: Engine, tmp_path: Path) -> None:
    role = planned(tmp_path, {}).role("w")
    images = Images(Client(f"unix://{tmp_path}/s"), "amd64", {}, print)
    for retry in (0, 0, 0, 1):  # a second try looks again
        assert images.get(role, retry).id == "sha256:1"
    assert len(engine.paths) == len(["ping", "first", "second"])
    images.resume()
    images.get(role)
    assert len(engine.paths) == len(["ping", "first", "second", "next attempt"])


def test_the_engine_is_asked_for_its_version_of_the_api_only_once(engine: Engine, tmp_path: Path) -> None:
    connected = Client(f"unix://{tmp_path}/s")
    assert connected.podman == "4.3.1"
    assert connected.image("busybox")
    assert engine.paths == ["/_ping", "/v1.40/images/busybox/json"]


def test_an_engine_that_is_not_ready_is_an_error(engine: Engine, tmp_path: Path) -> None:
    engine.ping = 503
    with pytest.raises(EngineRefused, match="503"):
        Client(f"unix://{tmp_path}/s")


def test_an_image_that_is_removed_while_podman_looks_at_another_does_no_harm(engine: Engine, tmp_path: Path) -> None:
    connected = Client(f"unix://{tmp_path}/s")
    engine.failures = 2
    found = connected.image("busybox")
    assert found is not None
    assert found.id == "sha256:1"
    engine.failures = 2
    assert connected.images() == ["sha256:1"]
    engine.failures = 1000
    with pytest.raises(EngineRefused, match="image not known"):
        connected.image("busybox")
    assert 990 < engine.failures < 1000


def test_other_errors_are_reported_at_once(engine: Engine, tmp_path: Path) -> None:
    engine.failures, engine.reason = 1, "no space left on device"
    with pytest.raises(EngineRefused, match="no space left"):
        Client(f"unix://{tmp_path}/s").image("busybox")


def test_an_engine_whose_answer_breaks_off_is_gone() -> None:
    with pytest.raises(EngineGone, match=r"does not answer: .*Read timed out"), client._errors("unix:///engine"):
        raise urllib3.exceptions.ReadTimeoutError(None, None, "Read timed out.")  # type: ignore[arg-type]
