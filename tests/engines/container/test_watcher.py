"""Watching for ended containers with an engine that sometimes sends invalid answers."""

from __future__ import annotations

import socketserver
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.container.api.client import Client
from kedge.engines.container.watcher import Watch
from kedge.testing.wait import wait_until

from .serving import answer, serving

ENDED = [{"Names": ["/kedge-x-worker-0"], "State": "exited"}]


class Engine(socketserver.ThreadingUnixStreamServer):
    """A fake engine that answers queries with `answers` in order, repeating the last one."""

    daemon_threads = True

    def __init__(self, path: Path, answers: list[Any]) -> None:
        self.answers = answers
        super().__init__(str(path), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        if "/containers/json" in self.path:
            return answer(self, self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0])
        return answer(self, {})


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with serving(Engine(tmp_path / "s", [[{}], ENDED])) as made:
        yield made


def test_an_invalid_answer_does_not_end_the_watch(engine: Engine, tmp_path: Path) -> None:
    heard: list[str] = []
    troubles: list[str] = []
    watch = Watch(
        Client(f"unix://{tmp_path}/s"), "kedge.job=x", heard.append, troubles.append, lambda: None, lambda: None,
        lambda: None,
    )  # fmt: skip
    watch.start()
    wait_until(lambda: heard)
    watch.close()
    assert heard[0] == "kedge-x-worker-0"
    assert troubles
