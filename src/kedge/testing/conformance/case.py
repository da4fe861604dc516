"""A conformance case: a job that runs to its end, and the results that are expected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kedge.contract import CURRENT, REPORT_FILE, RUNTIME_LOG, USER_STDERR, USER_STDOUT
from kedge.testing.command import Kedge

NO_RETRY = {"kedge": {"retry": {"maxTransient": 0}}}
QUICK_RETRY = {"kedge": {"retry": {"backoffSec": 0.01}}}


@dataclass(frozen=True)
class ConformanceCase:
    """The arguments for `Kedge.job`, then the expected results; those that are None or empty are not checked.

    A task is named by its folder: `worker-0`, or `attempt-1/worker-0` in an attempt other than the first.
    """

    commands: str | list[str] = ""
    roles: dict[str, Any] | None = None
    keys: dict[str, Any] = field(default_factory=dict)  # of the job file
    files: Mapping[str, str] = field(default_factory=dict)  # next to the job file: content by name
    options: tuple[str, ...] = ()
    exported: Mapping[str, str] = field(default_factory=dict)  # variables of the user's own environment

    code: int = 0  # exit code of `kedge run`
    logs: str | Mapping[str, str] = field(default_factory=dict)  # exact logs by task; a text is that of worker-0
    stdout: bytes | None = None  # of worker-0, exactly
    stderr: bytes | None = None
    runtime: tuple[str, ...] = ()  # all messages of worker-0's runtime.log
    report: Mapping[str, Any] = field(default_factory=dict)  # some keys of worker-0's report
    states: Mapping[str, str] = field(default_factory=dict)  # how tasks ended, by `role:index`
    prints: tuple[str, ...] = ()  # patterns that the output of `kedge run` must match
    attempts: int | None = None
    more: Callable[[Kedge], None] | None = None  # checks the rest

    def __call__(self, kedge: Kedge) -> None:
        """Run the job and check the results; none of its processes may be left."""
        for name, content in self.files.items():
            (kedge.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (kedge.folder / name).write_text(content)
        job = kedge.job(self.commands, roles=self.roles, **self.keys)
        done = kedge("run", job, *self.options, code=self.code, **self.exported)
        self._check_tasks(kedge)
        self._check_job(kedge, done.stdout + done.stderr)
        assert kedge.leftovers() == []

    def _check_tasks(self, kedge: Kedge) -> None:
        for task, text in ({"worker-0": self.logs} if isinstance(self.logs, str) else self.logs).items():
            attempt, _, name = task.rpartition("/")
            same(f"the log of {task}", kedge.task_log(name, int(attempt.removeprefix("attempt-") or 0)), text)
        folder = kedge.task()
        for stream, expected in ((USER_STDOUT, self.stdout), (USER_STDERR, self.stderr)):
            if expected is not None:
                same(stream, (folder / stream / CURRENT).read_bytes(), expected)
        if self.runtime:
            same(RUNTIME_LOG, runtime_log(kedge), list(self.runtime))
        if self.report:
            report = json.loads((folder / REPORT_FILE).read_text())
            same(REPORT_FILE, {key: report[key] for key in self.report}, dict(self.report))

    def _check_job(self, kedge: Kedge, printed: str) -> None:
        for pattern in self.prints:
            assert re.search(pattern, printed, re.MULTILINE), f"{pattern!r} is not in\n{printed}"
        report = job_report(kedge)
        if self.states:
            same("states", {task["task"]: task["state"] for task in report["tasks"]}, dict(self.states))
        if self.attempts is not None:
            same("attempts", report["attempts"], self.attempts)
        if self.more:
            self.more(kedge)


def same(what: str, seen: object, expected: object) -> None:
    """AssertionError that shows both values, unless they are equal."""
    assert seen == expected, f"{what}:\n  seen     {seen!r}\n  expected {expected!r}"


def runtime_log(kedge: Kedge, task: str = "worker-0") -> list[str]:
    """The messages of a task's runtime.log, without their time and program name."""
    text = (kedge.task(task) / RUNTIME_LOG).read_text()
    return [line.partition("[openpai-runtime] ")[2] for line in text.splitlines()]


def job_report(kedge: Kedge) -> dict[str, Any]:
    """The report.json of the only run."""
    report: dict[str, Any] = json.loads((kedge.only_run() / REPORT_FILE).read_text())
    return report


def no_secrets(run: Path) -> None:
    """AssertionError if the folder with the secrets of a run is still there. That of a cluster engine is in the run
    folder; only its files with secrets go."""
    where = Path(json.loads((run / "run.json").read_text())["secrets_dir"])
    left = [where / "secrets.json", where / "link.json"] if where == run / "cluster" else [where]
    same("secrets", [path for path in left if path.exists()], [])
