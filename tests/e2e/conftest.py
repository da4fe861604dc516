"""kedge as a user starts it: the real command, in a state folder of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.testing.wait import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT = 120.0


class Kedge:
    """Runs the command line. `jobs` is the folder of the run folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "state" / "kedge" / "jobs"
        # The tests' own python comes first: examples start `python`.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        places = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
        self.environment = {**os.environ, **places, "PATH": path}
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *args: object, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and check its exit code."""
        done = subprocess.run(
            self._argv(args), cwd=self.folder, env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"exit code {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def start(self, *args: object) -> subprocess.Popen[str]:
        """Start a command in a session of its own."""
        process = subprocess.Popen(
            self._argv(args), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def job(
        self, commands: str | list[str], *, name: str = "job", roles: dict[str, Any] | None = None, **keys: Any
    ) -> Path:
        """Write a job file with one role `worker`, or with `roles`: what each has beyond the usual."""
        role = {
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
            "commands": [commands] if isinstance(commands, str) else commands,
        }
        prerequisites = [{"name": "image", "type": "dockerimage", "uri": "busybox"}, *keys.pop("prerequisites", [])]
        document = {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "prerequisites": prerequisites,
            "taskRoles": {key: {**role, **own} for key, own in (roles or {"worker": {}}).items()},
            **keys,
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def runs(self) -> list[Path]:
        return sorted(self.jobs.iterdir()) if self.jobs.is_dir() else []

    def only_run(self) -> Path:
        runs = self.runs()
        assert len(runs) == 1, runs
        return runs[0]

    def events(self) -> list[dict[str, Any]]:
        """The controller's events of the only run so far; none before there is one."""
        files = [run / "events.jsonl" for run in self.runs()]
        return [json.loads(line) for f in files if f.exists() for line in f.read_text().splitlines()]

    def wait_for_output(self, text: str, task: str = "worker-0", attempt: int = 0) -> None:
        """Wait until a task of the only run has said something."""
        wait_until(lambda: text in self.said(task, attempt), TIMEOUT, f"{text!r} from {task}")

    def said(self, task: str = "worker-0", attempt: int = 0) -> str:
        """Everything in a task's combined log."""
        files = [run / f"attempt-{attempt}" / task / "user-all" / "current" for run in self.runs()]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
        for run in self.runs():
            subprocess.run(
                [*self._argv(("stop", "--kill", run.name))], env=self.environment, capture_output=True, check=False
            )

    def _argv(self, args: tuple[object, ...]) -> list[str]:
        return [sys.executable, "-m", "kedge", *map(str, args)]


@pytest.fixture
def kedge(tmp_path: Path) -> Iterator[Kedge]:
    command = Kedge(tmp_path)
    yield command
    command.close()


def processes_of(marker: str) -> list[int]:
    """The processes whose command line holds `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
