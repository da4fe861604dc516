"""A scene: the kedge commands of a round, in a folder of their own, and what was observed of them."""

from __future__ import annotations

import json
import random
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kedge import processes
from kedge.contract import EVENTS_FILE, REPORT_FILE
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.testing.command import Kedge

from . import parts
from .forked import Forked
from .parts import Part

NO_ROOM = "no room"  # an entry of `struck`: files could not be written
ANSWER_SEC = 60.0  # a command that takes longer hangs, even on a busy machine
_BEGUN_SEC = 10.0
_LARGEST = 50_000_000  # bytes to read of a file


@dataclass(eq=False)
class Command:
    """A `kedge` command that was started. `struck` are the signals sent to it, and other harm done to it."""

    args: tuple[str, ...]
    process: subprocess.Popen[bytes] | Forked
    files: tuple[Path, Path]
    struck: set[str] = field(default_factory=set)
    hung: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.began

    @property
    def code(self) -> int | None:
        return self.process.poll()

    @property
    def said(self) -> str:
        return "".join(file.read_text(errors="replace") for file in self.files)

    @property
    def out(self) -> str:
        return self.files[0].read_text(errors="replace")

    def wait(self, seconds: float) -> bool:
        """Whether it ends by this time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def __str__(self) -> str:
        return f"kedge {' '.join(self.args)}"


class Scene:
    """The kedge of one round, with all its files below `folder`; `random` makes all random choices.

    `struck` are the kinds of parts that were harmed; `removed` the ids of runs that `kedge rm` may have deleted.
    """

    def __init__(self, folder: Path, random: random.Random, cache: Path, engine: str = "local") -> None:
        self.folder, self.random = folder, random
        self.kedge = Kedge(folder, engine)
        self.token = folder.name
        self.commands: list[Command] = []
        self.struck: set[str] = set()
        self.removed: set[str] = set()
        self.broken: list[
            str
        ] = []  # violations seen during the round, such as facts that changed after they were recorded
        self.on_end: list[Callable[[], object]] = []
        self._facts: dict[Path, bytes] = {}
        environment = self.kedge.environment
        environment |= {
            parts.MARK: self.token,
            "XDG_CACHE_HOME": str(cache),
            "PYTHONPYCACHEPREFIX": str(cache / "python"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # without byte code every start is slow

    def start(
        self,
        *args: object,
        stdout: int | None = None,
        stderr: int | None = None,
        before: Callable[[], object] | None = None,
    ) -> Command:
        """Start a command in a new session; its output goes to files unless redirected. `before` is called in its
        process."""
        stem = self.folder / f"{len(self.commands):02}-{args[0]}"
        out, err = files = (stem.with_suffix(".out"), stem.with_suffix(".err"))
        with out.open("wb") as to_out, err.open("wb") as to_err:
            if args[0] == "run" or before:
                process: subprocess.Popen[bytes] | Forked = subprocess.Popen(
                    self.kedge.argv(args), cwd=self.folder, env=self.kedge.environment, stdin=subprocess.DEVNULL,
                    stdout=to_out if stdout is None else stdout, stderr=to_err if stderr is None else stderr,
                    start_new_session=True, preexec_fn=before,
                )  # fmt: skip
            else:
                process = Forked([str(arg) for arg in args], self.folder, self.kedge.environment, out, err)
        self.commands.append(Command(tuple(map(str, args)), process, files))
        return self.commands[-1]

    def __call__(self, *args: object) -> Command:
        """Run a command to its end."""
        command = self.start(*args)
        self.finish(command)
        return command

    def finish(self, command: Command) -> None:
        """Wait for its end; kill it if it hangs."""
        if not command.wait(max(1.0, ANSWER_SEC - command.age)):
            command.hung = True
            command.process.kill()
            command.process.wait(ANSWER_SEC)

    def pause(self, longest: float) -> None:
        """Wait a random time: usually little, at most `longest` seconds."""
        time.sleep(longest * self.random.random() ** 2)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def runs(self) -> list[Run]:
        """All runs that kedge lists."""
        return [Run(path) for path in self.kedge.runs() if (path / "run.json").exists()]

    def events(self, run: Run) -> list[dict[str, Any]]:
        """The events in the log of a run, without damaged lines."""
        found = []
        for line in (content(run.events) or b"").split(b"\n")[:-1]:
            with suppress(ValueError, RecursionError):
                found.append(json.loads(line))
        return [event for event in found if isinstance(event, dict)]

    def state(self, run: Run) -> str | None:
        """How a run ended, by the last job-completed event in its log."""
        ends = [event.get("state") for event in self.events(run) if event.get("event") == JobEvent.JOB_COMPLETED]
        return ends[-1] if ends else None

    def parts(self, *kinds: str) -> list[Part]:
        """The processes of this scene of these kinds, or of all kinds if none is named."""
        commands = {command.process.pid for command in self.commands}
        return [part for part in parts.of(self.folder, self.token, commands) if not kinds or part.kind in kinds]

    def await_parts(self, *kinds: str) -> None:
        """Wait until there is such a process; one time in five, do not wait."""
        end = time.monotonic() + (_BEGUN_SEC if self.chance(0.8) else 0.0)
        while time.monotonic() < end and not self.parts(*kinds):
            if all(command.code is not None for command in self.commands):
                return
            time.sleep(0.02)

    def strike(self, part: Part, number: int) -> None:
        """Send a signal to a part, and record it."""
        self.struck.add(part.kind)
        for command in self.commands:
            if command.process.pid == part.process.pid:
                command.struck.add(signal.Signals(number).name)
        processes.send(part.process, number)

    def observe(self) -> None:
        """Record all facts so far; none that was recorded before may be gone."""
        for path in self.kedge.runs():
            for file in (path / EVENTS_FILE, *path.glob(f"attempt-*/*/{REPORT_FILE}")):
                self._remember(file)

    def _remember(self, file: Path) -> None:
        before, now = self._facts.get(file, b""), content(file)
        if now is None:
            return  # the run was removed; other missing facts are detected at the end
        if not now.startswith(before):
            self.broken.append(f"{file}: {before[:200]!r} has become {now[:200]!r}")
        self._facts[file] = now[: now.rfind(b"\n") + 1]

    def close(self) -> None:
        """End all remaining processes, whatever has happened."""
        for action in reversed(self.on_end):
            action()
        for command in self.commands:
            command.process.kill()
            command.process.wait(ANSWER_SEC)
        processes.kill(lambda: [part.process for part in self.parts()])


def content(file: Path) -> bytes | None:
    """The content of a regular file; None if there is none, for example because a task has replaced it."""
    try:
        found = file.lstat()
        return file.read_bytes() if stat.S_ISREG(found.st_mode) and found.st_size < _LARGEST else None
    except OSError:
        return None
