"""Runs the real kedge command in tests, with a state folder for each test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from kedge.contract import CURRENT, EVENTS_FILE, JOB_DIR, OUTPUT_DIR, USER_ALL
from kedge.runs.folder import Run
from kedge.runs.liveness import is_controlled
from kedge.testing.wait import wait_until

_SETTINGS = ["KEDGE_CONFIG_FILE", "KEDGE_SITE_FILE"]  # variables that name other files
TIMEOUT = 240.0  # seconds; only a hanging job takes this long, even on a busy machine


class Kedge:
    """Runs kedge commands. All of their state is below `folder`, with the run folders in `jobs`.

    Jobs run on `engine` with `options`, or on that of the settings if it is empty; the job files that `job` writes use
    `image`. Call `close` at the end of a test.
    """

    keeps_code = True  # whether the copies of the code in which tasks have run are in the run folder

    def __init__(
        self, folder: Path, engine: str = "local", options: tuple[str, ...] = (), image: str = "busybox"
    ) -> None:
        self.folder = folder
        self.jobs = folder / "state" / "kedge" / "jobs"
        self.engine = engine
        self._options = options
        self.image = image
        # The Python of the tests comes first: examples start `python`.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        places = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
        places |= without_settings()
        self.environment = {**os.environ, **places, "PATH": path}
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *args: object, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and check its exit code."""
        done = self.execute(args, {**self.environment, **environment})
        assert done.returncode == code, f"exit code {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def execute(self, args: tuple[object, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.argv(args), cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=TIMEOUT, check=False,
        )  # fmt: skip

    def start(self, *args: object) -> subprocess.Popen[str]:
        """Start a command in a new session."""
        process = subprocess.Popen(
            self.argv(args), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str], code: int) -> str:
        """Wait until a process from `start` ends and check its exit code; returns its stdout followed by its stderr."""
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == code, f"exit code {process.returncode}, not {code}\n{out}\n{err}"
        assert "Traceback" not in err, err
        return out + err

    def job(
        self, commands: str | list[str], *, name: str = "job", roles: dict[str, Any] | None = None, **keys: Any
    ) -> Path:
        """Write a job file with one role `worker`, or with `roles`: each name with the keys that replace defaults."""
        role = {
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
            "commands": [commands] if isinstance(commands, str) else commands,
        }
        image = {"name": "image", "type": "dockerimage", "uri": self.image}
        document = {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "prerequisites": [image, *keys.pop("prerequisites", [])],
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

    def controller(self) -> int:
        """The pid of the only run's controller."""
        return int(json.loads((self.only_run() / "lock").read_bytes())["pid"])

    def lose_controller(self) -> None:
        """Kill the controller of the only run, so that the run is lost."""
        os.kill(self.controller(), signal.SIGKILL)
        wait_until(lambda: not is_controlled(Run(self.only_run())), TIMEOUT)

    def task(self, task: str = "worker-0", attempt: int = 0) -> Path:
        """The folder of a task of the only run."""
        return self.only_run() / f"attempt-{attempt}" / task

    def job_dir(self, run: str = "") -> Path:
        """The folder that the tasks of a run share, where this process sees it; without a name that of the only run."""
        return (self.jobs / run if run else self.only_run()) / JOB_DIR

    def outputs(self, task: str = "worker-0", attempt: int = 0) -> Path:
        """The folder with the results of a task of the only run, where this process sees it."""
        return self.task(task, attempt) / OUTPUT_DIR

    def site_file(self, text: str) -> None:
        """Have the site set this, as TOML whose relative paths begin at `folder`."""
        file = self.folder / "site.toml"
        file.write_text(text)
        self.environment["KEDGE_SITE_FILE"] = str(file)

    def events(self) -> list[dict[str, Any]]:
        """The events of the controller's log so far; none before there is a run."""
        files = [run / EVENTS_FILE for run in self.runs()]
        whole = (line for f in files if f.exists() for line in f.read_text().split("\n")[:-1])
        return [json.loads(line) for line in whole]

    def wait_for_output(self, text: str, task: str = "worker-0", attempt: int = 0) -> None:
        """Wait until a task of the only run has printed this text."""
        wait_until(lambda: text in self.task_log(task, attempt), TIMEOUT, f"{text!r} from {task}")

    def task_log(self, task: str = "worker-0", attempt: int = 0) -> str:
        """The whole combined log of a task."""
        files = [run / f"attempt-{attempt}" / task / USER_ALL / CURRENT for run in self.runs()]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def leftovers(self) -> list[str]:
        """The processes of this machine that still belong to a job: those with the id of a run in their environment.

        Override it for an engine that runs tasks elsewhere or leaves more than processes.
        """
        wanted = {f"KEDGE_JOB_ID={run.name}".encode() for run in self.runs()}
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if wanted & set(Path("/proc", pid, "environ").read_bytes().split(b"\0")):
                    found.append(f"{pid} {Path('/proc', pid, 'cmdline').read_bytes()!r}")
            except OSError:  # it has ended, or belongs to another user
                continue
        return found

    def close(self) -> None:
        """End the commands and runs that the test has left."""
        for process in self._started:
            process.kill()
            process.communicate()
        remains = Kedge.leftovers(self)
        for run in self.runs():
            if remains or not _has_ended(run):
                subprocess.run(
                    self.argv(("stop", "--kill", run.name)), env=self.environment, capture_output=True, check=False
                )

    def argv(self, args: tuple[object, ...]) -> list[str]:
        """The full command line for these arguments."""
        engine = ("--engine", self.engine, *self._options) if args[:1] == ("run",) and self.engine else ()
        return [sys.executable, "-m", "kedge", *map(str, (*args[:1], *engine, *args[1:]))]


def without_settings() -> dict[str, str]:
    """Variables with which kedge ignores the settings of this machine and user; those of a site only where that is
    allowed."""
    path = "/etc/kedge/site.toml"
    ignored = ["KEDGE_CONFIG_FILE"] if os.path.lexists(path) and not os.access(path, os.W_OK) else _SETTINGS
    return dict.fromkeys(ignored, os.devnull)


def _has_ended(run: Path) -> bool:
    """Whether the last of the controller's events is the end of the job."""
    try:
        return b'"job-completed"' in (run / EVENTS_FILE).read_bytes().splitlines()[-1]
    except (OSError, IndexError):
        return False
