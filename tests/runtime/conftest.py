"""Running the real supervisor, through its launcher, in its own run folder."""

from __future__ import annotations

import contextlib
import http.server
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import re2

import kedge
from kedge import contract
from kedge.contract import Callback, Step, StopPolicy, TaskSpec
from kedge.testing.wait import wait_until

RUNTIME = Path(kedge.__file__).parent / "runtime"
SITE = str(Path(re2.__file__).parents[1])  # where installed packages are


class Attempt:
    """One attempt of one task: describe it, start it, inspect its results."""

    launcher = str(RUNTIME)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = TaskSpec(
            user="me", job="test", job_id="me~test", role="worker", task_index=0, job_attempt=0, task_attempt=0,
            uid="11111111-2222", folder=str(folder), workdir=f"{folder}/work", environment={}, command=("true",),
            steps=(), host="127.0.0.1", ports={"ssh": [22022], "http": [8080]}, peers_file="",
            stop=StopPolicy("TERM", 20.0),
        )  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, command: str | None = None, *options: str, prefix: tuple[str, ...] = (), **popen: Any) -> None:
        """Start the supervisor and leave it running."""
        if command is not None:
            self.spec = self.spec._replace(command=(command,))
        self.folder.mkdir(exist_ok=True)
        file = self.folder / contract.SPEC_FILE
        file.write_text(json.dumps(self.spec.to_json()))
        site = () if "--site" in options else ("--site", SITE)
        argv = [*prefix, sys.executable, "-I", "-S", self.launcher, str(file), *site, *options]
        self.process = subprocess.Popen(argv, **popen)

    def wait(self) -> int:
        """The supervisor's exit status."""
        assert self.process
        return self.process.wait(600)

    def run(self, command: str | None = None, *options: str, **popen: Any) -> int:
        """Start the supervisor and return its exit status."""
        self.start(command, *options, **popen)
        return self.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the supervisor alone."""
        assert self.process
        self.process.send_signal(number)

    def wait_for(self, name: str) -> Path:
        """Wait until the task has made the file `name` in its working directory."""
        path = Path(self.spec.workdir) / name
        wait_until(path.exists, what=str(path))
        return path

    def wait_for_event(self, event: str) -> dict[str, Any]:
        """Wait for the first event of a kind."""
        found: list[dict[str, Any]] = wait_until(lambda: [e for e in self.events if e["event"] == event], what=event)
        return found[0]

    @property
    def report(self) -> dict[str, Any]:
        """report.json."""
        data: dict[str, Any] = json.loads((self.folder / contract.REPORT_FILE).read_text())
        return data

    @property
    def events(self) -> list[dict[str, Any]]:
        """The complete lines of events.jsonl."""
        path = self.folder / contract.EVENTS_FILE
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def log(self) -> list[str]:
        """The messages of runtime.log, without their dates."""
        path = self.folder / contract.RUNTIME_LOG
        text = path.read_bytes().decode(errors="surrogateescape") if path.exists() else ""
        return [line.split("] [openpai-runtime] ", 1)[1] for line in text.split("\n")[:-1]]

    def stream(self, name: str) -> bytes:
        """All that is kept of one stream, rotated files first."""
        return b"".join(path.read_bytes() for path in sorted((self.folder / name).iterdir()))


class Web:
    """An HTTP server on the loopback that serves `folder` and can misbehave.

    `answers` are status codes for the first requests, sent with `headers`. `password` is the required value of Basic
    authentication in base64. `cuts` are the lengths after which the first responses with a body end. Requests after
    number `hang_after` wait for `release`. `ranges` enables support of Range. `seen` collects every command line and
    environment of the machine's processes at authorised requests.
    """

    def __init__(self) -> None:
        self.folder = Path("/nonexistent")
        self.answers: list[int] = []
        self.headers: dict[str, str] = {}
        self.password = ""
        self.cuts: list[int] = []
        self.hang_after = math.inf
        self.release = threading.Event()
        self.ranges = True
        self.announced: int | None = None
        self.redirects: list[str] = []
        self.before_answer: Callable[[int], object] = lambda _number: None
        self.requests: list[Any] = []
        self.authorised = 0
        self.seen: list[bytes] = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (WebHandler,), {"web": self}))
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.address}"

    def look_at_processes(self) -> None:
        """Record the command lines and environments that are visible on the machine."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    self.seen.append(Path(f"/proc/{pid}/{name}").read_bytes())


class WebHandler(http.server.BaseHTTPRequestHandler):
    """One request to Web."""

    web: Web

    def log_message(self, *_arguments: Any) -> None:
        """Print no log."""

    def do_GET(self) -> None:
        """Respond, or misbehave."""
        web = self.web
        web.requests.append(self)
        if len(web.requests) > web.hang_after:
            web.release.wait(600)
        web.before_answer(len(web.requests))
        if web.redirects:
            return self.answer(302, b"", {"Location": web.redirects.pop()})
        if web.answers:
            return self.answer(web.answers.pop(0), b"", web.headers)
        if web.password and self.headers["Authorization"] != f"Basic {web.password}":
            return self.answer(401, b"", {"WWW-Authenticate": 'Basic realm="x"'})
        if web.password:
            web.authorised += 1
            web.look_at_processes()
        path = web.folder / unquote(self.path.partition("?")[0]).lstrip("/")
        if not path.is_file():
            return self.answer(404, b"", {})
        return self.serve(path.read_bytes())

    def serve(self, data: bytes) -> None:
        """Send a whole file or the rest of it."""
        headers = {"ETag": f'"{hash(data):x}"'}
        start = 0
        same = self.headers["If-Range"] in (None, headers["ETag"])
        if self.web.ranges and same and (asked := self.headers["Range"]):
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                return self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return self.answer(206 if start else 200, data[start:], headers)

    def answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        """Send a response, or a part of it."""
        self.send_response(status)
        length = len(data) if self.web.announced is None else self.web.announced
        for name, value in {"Content-Length": str(length), **headers}.items():
            if value != "-1":
                self.send_header(name, value)
        self.end_headers()
        cut = self.web.cuts.pop(0) if data and self.web.cuts else None
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data[:cut])
        self.close_connection = True


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def step(name: str, policy: str = "fail", **scripts: str) -> Step:
    """A step from its scripts by event, in the order given."""
    return Step(name, tuple(Callback(event, (script,)) for event, script in scripts.items()), policy)


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    """An attempt in a new folder; its supervisor is ended with the test."""
    attempt = Attempt(tmp_path / "task")
    yield attempt
    if attempt.process and attempt.process.poll() is None:
        attempt.process.send_signal(signal.SIGTERM)
        attempt.process.send_signal(signal.SIGTERM)
        attempt.process.wait(120)


@pytest.fixture
def web() -> Iterator[Web]:
    """A server for this test alone."""
    web = Web()
    thread = threading.Thread(target=web.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield web
    web.release.set()
    web.server.shutdown()
    web.server.server_close()
    thread.join()


@pytest.fixture(name="alive")
def alive_fixture() -> Any:
    """The function `alive`: test modules cannot import from this file."""
    return alive


@pytest.fixture(name="step")
def step_fixture() -> Any:
    """The function `step`."""
    return step
