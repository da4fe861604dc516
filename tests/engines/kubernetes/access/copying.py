"""A run folder with a `serve-run` of its own process, and the copy of it, connected by pipes."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from kedge.contract import LogPolicy
from kedge.engines.kubernetes.access import copy_rules
from kedge.engines.kubernetes.access.copy_session import CopySession
from kedge.engines.kubernetes.access.local_copy import LIMIT, LocalCopy
from kedge.runs.folder import Run
from kedge.runtime.files import Faults
from kedge.runtime.logs.rotate import RotatingFile

SERVE = [sys.executable, "-m", "kedge.engines.kubernetes.access.serve_run"]


class PipeStream:
    """The pipes of a `serve-run`."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen([*SERVE, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def read(self, timeout_sec: float) -> bytes | None:
        out = self.process.stdout.fileno()
        return os.read(out, 1 << 16) if select.select([out], [], [], timeout_sec)[0] else None

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


class Copying:
    """The folder `there` of a run and the folder `here`, the copy."""

    def __init__(self, folder: Path) -> None:
        self.there, self.here = folder / "there", folder / "here"
        for each in (self.there, self.here):
            (each / "cluster").mkdir(parents=True, exist_ok=True)
        self.session = self.copy = None

    def begin(self, *, follow: bool = True, limit: int = LIMIT, **wanted) -> None:
        self.copy = LocalCopy(Run(self.here), limit=limit)
        self.session = CopySession(PipeStream(self.there))
        self.session.start(self.copy, copy_rules.CopyOrder(follow=follow, **wanted))

    def end(self) -> None:
        if self.session:
            self.session.close()
            self.copy.close()
            self.session = self.copy = None

    def once(self, **options):
        """A whole conversation, as that of `kedge show`."""
        self.begin(follow=False, **options)
        try:
            return self.session.next(60)
        finally:
            self.end()

    def until_same(self) -> None:
        for _ in range(200):
            if self.same():
                return
            self.session.next(1)
        assert files(self.here) == files(self.there)

    def same(self) -> bool:
        return files(self.here) == files(self.there)


def files(folder: Path, wanted=lambda group: group != copy_rules.OUTPUT) -> dict[str, bytes]:
    """What is copied, by paths."""
    paths = (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file())
    known = [path for path in paths if (group := copy_rules.group(path)) is not None and wanted(group)]
    return {path: (folder / path).read_bytes() for path in known}


class Log:
    """A stream of a task, rotated every 4 KiB or so."""

    def __init__(self, task: Path, kept: int = 2, stream: str = "user-all") -> None:
        self.time, self.lines = 10**18, 0
        task.mkdir(parents=True, exist_ok=True)
        policy = LogPolicy(file_bytes=4096, kept_files=kept)
        self.file = RotatingFile(f"{task}/{stream}", policy, Faults(), lambda *_: None, self._clock)

    def _clock(self) -> int:
        self.time += 10**9
        return self.time

    def print(self, lines: int) -> None:
        for _ in range(lines):
            self.lines += 1
            self.file.write([f"line {self.lines}: {'x' * 80}\n".encode()])
