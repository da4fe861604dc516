"""Running a case of the zoo with the real command, and reading kedge's diagnosis."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from tests.faults.forked import Captured

from kedge.testing.wait import wait_until

from .case import SUCCESS, Case
from .places import KEDGE, Place

TIMEOUT = 600.0


class Executed:
    """A command that is not forked from a server, because its place has its own way to start it."""

    def __init__(self, argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def finish(self, timeout: float) -> tuple[int, str, str]:
        out, err = self._process.communicate(timeout=timeout)
        return self._process.returncode, out, err

    def terminate(self) -> None:
        self._process.terminate()


Command = Captured | Executed


class Run:
    """One run of `kedge run`."""

    def __init__(self, folder: Path, job: Path, place: Place) -> None:
        self._state = folder / "state"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {
            **os.environ, "PATH": path, "XDG_STATE_HOME": str(self._state), "OMP_NUM_THREADS": "1", **place.environment
        }  # fmt: skip
        args = ("run", "--quiet", str(job))
        if place.kedge == KEDGE:
            self._process: Command = Captured(args, folder, environment)
        else:
            self._process = Executed((*place.kedge, *args), folder, environment)

    def finish(self) -> str:
        """Wait for the end and return kedge's output."""
        try:
            code, out, err = self._process.finish(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.terminate()  # kedge stops the job
            _, out, err = self._process.finish(TIMEOUT)
            pytest.fail(f"the job did not end\n{out}{err}\n{_tails(self)}")
        assert code in (0, 1), out + err
        return out + err

    def logs(self, name: str) -> dict[str, str]:
        """The contents so far of this log of every task, by path."""
        attempts = self._state.glob("kedge/jobs/*/attempt-*/*")
        files = (attempt / name for attempt in attempts if (attempt / name).exists())
        return {"/".join(file.parts[-4:]): file.read_text(errors="replace") for file in files}

    def report(self) -> dict[str, Any]:
        """The job's report.json."""
        (file,) = self._state.glob("kedge/jobs/*/report.json")
        report: dict[str, Any] = json.loads(file.read_text())
        return report


class Zoo:
    """Runs cases in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def expect(self, case: Case, strike: Signals | None = None) -> dict[str, Any]:
        """Run a case and compare kedge's diagnosis with the expected one. Returns the job's report.

        `strike` is a signal that somebody outside sends to the process that prints `ready PID`.
        """
        for need in case.needs:
            need.require()
        with case.place(self._folder) as place:
            run = Run(self._folder, case.write(self._folder), place)
            if strike:
                os.kill(wait_until(lambda: _ready(run), TIMEOUT, "a process that is ready"), strike)
            said = run.finish()
        report = run.report()
        assert _answer(report, case) == case.expected, f"{said}\n{_tails(run)}"
        return report


@pytest.fixture
def zoo(tmp_path: Path) -> Zoo:
    return Zoo(tmp_path)


def _ready(run: Run) -> int:
    found = re.search(r"^ready (\d+)$", "\n".join(run.logs("user-all/current").values()), re.MULTILINE)
    return int(found[1]) if found else 0


def _answer(report: dict[str, Any], case: Case) -> tuple[str | None, str, str | None]:
    """The root task, the cause and, if the case expects one, the frame."""
    root = report["root"]
    if root is None:
        return None, SUCCESS if report["state"] == "succeeded" else "", None
    frame = root["frame"].removesuffix(" in <module>") if case.frame is not None else None
    return root["task"], root["cause"], frame


def _tails(run: Run) -> str:
    logs = {**run.logs("user-all/current"), **run.logs("runtime.log")}
    return "\n".join(f"--- {name}\n{log[-3000:]}" for name, log in sorted(logs.items()))
