"""Ending what is left of a run in an engine that rejects requests, is slow, or does not answer."""

from __future__ import annotations

import gc
import socketserver
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from kedge.engines.container import leftovers
from kedge.errors import CannotRun
from kedge.runs.folder import Run, create

from .serving import answer, serving


class Engine(socketserver.ThreadingUnixStreamServer):
    """A fake engine with containers, some of which it cannot remove or signal; `late` ones appear when others are
    removed."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.containers = {"one", "two"}
        self.kept: set[str] = set()
        self.late: set[str] = set()
        self.deaf = False
        super().__init__(str(path), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        if "/containers/json" in self.path:
            state = "running" if self.server.deaf else "exited"
            return answer(self, [{"Names": [f"/{name}"], "State": state} for name in sorted(self.server.containers)])
        if "/volumes" in self.path:
            return answer(self, {"Volumes": None})
        return answer(self, [] if "/networks" in self.path else {"ApiVersion": "1.41"})

    def do_POST(self) -> None:
        answer(self, {"message": "it is busy"}, 503 if self.server.deaf else 200)

    def do_DELETE(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if name in self.server.kept:
            return answer(self, {"message": "device or resource busy"}, 500)
        self.server.containers.discard(name)
        self.server.containers |= self.server.late
        self.server.late = set()
        return answer(self, {})


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with serving(Engine(tmp_path / "s")) as made:
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A lost run of a job without a grace period."""
    made = create(tmp_path / "jobs", "job")
    made.plan_file.write_text('{"stop": {"graceSec": 0}}')
    leftovers.note_engine(made, f"unix://{tmp_path}/s")
    return made


def test_all_is_removed_even_containers_that_appear_meanwhile(engine: Engine, run: Run) -> None:
    engine.late = {"three"}
    leftovers.end(run, kill=False)
    assert engine.containers == set()


def test_what_cannot_be_removed_is_named_and_the_rest_is_removed(engine: Engine, run: Run) -> None:
    engine.kept = {"one"}
    with pytest.raises(CannotRun, match=rf"{run.id} is not stopped: .*one \(.*device or resource busy"):
        leftovers.end(run, kill=True)
    assert engine.containers == {"one"}


def test_deaf_containers_are_removed(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE_SEC", 0.0)
    engine.deaf = True
    leftovers.end(run, kill=False)
    assert engine.containers == set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # docker leaves a socket open
def test_if_the_engine_does_not_answer_the_error_warns_of_running_containers(engine: Engine, run: Run) -> None:
    engine.shutdown()
    engine.server_close()
    with pytest.raises(CannotRun, match=rf"{run.id} .* may still be running: .*does not answer"):
        leftovers.end(run, kill=True)
    gc.collect()


def test_a_run_lost_before_it_used_an_engine_needs_none(tmp_path: Path, run: Run) -> None:
    (run.path / "engine.json").unlink()
    leftovers.end(run, kill=True)


@pytest.mark.parametrize("text", ["[]", "{", '{"address": 1}', '{"address": null}', "null"])
def test_a_damaged_engine_file_is_ignored(engine: Engine, run: Run, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.server_address}")
    (run.path / "engine.json").write_text(text)
    leftovers.end(run, kill=True)
    assert engine.containers == set()
