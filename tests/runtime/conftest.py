"""Running the real supervisor, through its launcher, on a run folder of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import re2

import kedge
from kedge import contract
from kedge.contract import Callback, Step, StopPolicy, TaskSpec
from kedge.testing.wait import wait_until

RUNTIME = Path(kedge.__file__).parent / "runtime"
SITE = str(Path(re2.__file__).parents[1])  # where installed packages are


class Attempt:
    """One attempt of one task: describe it, start it, look at what it left."""

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
        argv = [*prefix, sys.executable, "-I", "-S", str(RUNTIME), str(file), *site, *options]
        self.process = subprocess.Popen(argv, **popen)

    def wait(self) -> int:
        """The supervisor's exit status."""
        assert self.process
        return self.process.wait(60)

    def run(self, command: str | None = None, *options: str, **popen: Any) -> int:
        """Start, and wait for the end."""
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
        text = (self.folder / contract.RUNTIME_LOG).read_bytes().decode(errors="surrogateescape")
        return [line.split("] [openpai-runtime] ", 1)[1] for line in text.split("\n")[:-1]]

    def stream(self, name: str) -> bytes:
        """All that is kept of one stream, rotated files first."""
        return b"".join(path.read_bytes() for path in sorted((self.folder / name).iterdir()))


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
        attempt.process.wait(30)


@pytest.fixture(name="alive")
def alive_fixture() -> Any:
    """The function `alive`: test modules cannot import from this file."""
    return alive


@pytest.fixture(name="step")
def step_fixture() -> Any:
    """The function `step`."""
    return step
