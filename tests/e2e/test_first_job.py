"""docs/first-job.md does what it shows: its files are written, its commands typed, their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "first-job.md"
# Differs from run to run: the end of a run's id, durations.
VARYING = [(r"\bfirst-[a-z0-9]{6}\b", "first-ID"), (r"\d+\.\d s\b", "TIME"), (r"[ \t]+", " ")]


def test_the_first_job_runs_as_shown(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    page = PAGE.read_text()
    for name, text in re.findall(r"as `([\w.]+)`:\n\n```\w+\n(.*?)```", page, re.DOTALL):
        (work / name).write_text(text)
    shell = Shell(work, tmp_path / "home")
    typed = 0
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            printed = shell.type(command)
            assert re.fullmatch(pattern(shown), comparable(printed)), f"$ {command}\n{printed}"
            typed += 1
    assert typed == page.count("\n$ ")


class Shell:
    """Runs one command after the other in a folder, as an interactive shell would."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.exit_code = folder, 0
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        homes = {"HOME": str(home), "XDG_STATE_HOME": "", "XDG_CACHE_HOME": "", "COLUMNS": "120"}
        self.environment = {**os.environ, **homes, "PATH": path}
        home.mkdir()

    def type(self, command: str) -> str:
        """Everything that the command prints, both streams."""
        script = f"(exit {self.exit_code}); {command}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        )  # fmt: skip
        self.exit_code = done.returncode
        return done.stdout


def comparable(text: str) -> str:
    """Without what differs from run to run; neighbouring lines of tasks, which run at the same time, sorted."""
    for varying, name in VARYING:
        text = re.sub(varying, name, text)
    lines: list[str] = []
    tasks: list[str] = []
    for line in [*text.splitlines(), ""]:
        if re.match(r"worker:\d \|", line):
            tasks.append(line)
        else:
            lines += [*sorted(tasks), line.rstrip()]
            tasks = []
    return "\n".join(lines)


def pattern(shown: str) -> str:
    """A regular expression of what the page shows; a line `…` stands for any lines."""
    return re.escape(comparable(shown)).replace("…\\\n", "(?:.*\\n)*")
