"""A folder with a job file, and servers and files around it that the job may refer to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from kedge.contract import show_text
from kedge.errors import InputError, Problem, Unreachable
from kedge.resolve.model import Inputs, ResolvedJob
from kedge.resolve.resolve import resolve
from kedge.spec.parse import parse


def as_text(name: str, content: object) -> str:
    """A string unchanged; any other value as JSON or YAML, depending on the file's name."""
    if isinstance(content, str):
        return content
    return json.dumps(content) if name.endswith(".json") else str(yaml.safe_dump(content, sort_keys=False))


class Folder:
    """Writes files below `path`, and resolves jobs there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, content: object) -> Path:
        """Write a file with a string, or with a value as YAML or JSON."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(as_text(name, content))
        return file

    def job(self, listed: list[str], **keys: Any) -> str:
        """The text of a job with one role that lists these prerequisites."""
        image = {"name": "image", "type": "dockerimage", "uri": "busybox"}
        role = {
            "prerequisites": listed,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0},
            "commands": ["true"],
        }
        document = {"protocolVersion": 2, "name": "j", "type": "job"}
        document |= {"prerequisites": [image, *keys.pop("prerequisites", [])]}
        return yaml.safe_dump({**document, "taskRoles": {"w": role}, **keys}, sort_keys=False)

    def resolve(self, listed: list[str], inputs: dict[str, Any] | None = None, **keys: Any) -> ResolvedJob:
        """Resolve such a job, written to job.yaml."""
        return self.resolve_text(self.job(listed, **keys), **(inputs or {}))

    def resolve_text(self, text: str, **inputs: Any) -> ResolvedJob:
        """Resolve a job from its text."""
        given = {"user": "me", "cache": str(self.path / "cache"), **inputs}
        return resolve(parse(text, str(self.path / "job.yaml")), Inputs(**given))

    def problems(self, listed: list[str], inputs: dict[str, Any] | None = None, **keys: Any) -> list[Problem]:
        """All problems of such a job, which must have some."""
        with pytest.raises((InputError, Unreachable)) as caught:
            self.resolve(listed, inputs, **keys)
        assert all(isinstance(problem, Problem) for problem in caught.value.problems)
        return [problem for problem in caught.value.problems if isinstance(problem, Problem)]

    def problem(self, listed: list[str], inputs: dict[str, Any] | None = None, **keys: Any) -> Problem:
        """The only problem of such a job."""
        (problem,) = self.problems(listed, inputs, **keys)
        return problem


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def names(job: ResolvedJob) -> list[str]:
    """All prerequisites in order, with their values: `t(p=1)`."""
    shown = []
    for entry in job.requirements.entries:
        values = ", ".join(f"{name}={value}" for name, value in entry.values.items())
        shown.append(f"{entry.name}({values})" if values else entry.name)
    return shown


def scripts(job: ResolvedJob, event: str = "taskStarts") -> dict[str, str]:
    """The script of each step of the only role at an event, by the step's name."""
    (role,) = job.roles
    found = ((step.name, [c for c in step.callbacks if c.event == event]) for step in role.steps)
    return {name: "".join(show_text(c.script) for c in callbacks) for name, callbacks in found if callbacks}


def echo(name: str, *lines: str, **keys: Any) -> dict[str, Any]:
    """An item with a start hook."""
    return {"name": name, "callbacks": [{"event": "taskStarts", "commands": list(lines or [f"echo {name}"])}], **keys}


def reference(name: str, item: str, **values: Any) -> dict[str, Any]:
    """An entry of `extras.reference_prerequisites` that requires one item with these values."""
    return {"name": name, "require": [{"name": item, "template_variables": values}]}


class Server:
    """A web server on this machine: `answers` maps paths to handlers, `asked` collects the requests."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def serve(self, path: str, content: object, status: int = 200, **headers: str) -> str:
        """Answer with a string, or with a value as YAML (JSON for .json). Returns the URL."""
        data = as_text(path, content).encode()

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)

        self.answers[path] = answer
        return self.url + path

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@contextmanager
def serving() -> Iterator[Server]:
    """A server that is closed at the end of the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, dict(self.headers)))
            if answer := made.answers.get(self.path):
                answer(self)
            else:
                self.send_error(404)

        do_HEAD = do_GET  # noqa: N815 (names that the library requires)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        made = Server(http.server_address[1])
        thread = Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield made
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made
