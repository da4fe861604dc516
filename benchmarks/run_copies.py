"""Measures the copy of a run with many tasks, as the user's machine has it of a run on Kubernetes.

    python benchmarks/run_copies.py [TASKS ...]

The run folder is that of TASKS (10, 1000) tasks, each with the ten files of a short one. `serve-run`, which sends it in
the driver's pod, is a process of its own, connected by pipes; so the time that the API server takes is not in it. The
folder is copied; then it is followed: while nothing changes, and while one task after the other prints a line. The lag
of a line is from its writing to the moment at which the copy has it.
"""

from __future__ import annotations

import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from kedge.engines.kubernetes.access.copy_rules import CopyOrder
from kedge.engines.kubernetes.access.copy_session import CopySession
from kedge.engines.kubernetes.access.local_copy import LocalCopy
from kedge.link import mirroring
from kedge.link.frames import LinkFrame
from kedge.runs.folder import Run

SERVE = [sys.executable, "-m", "kedge.engines.kubernetes.access.serve_run"]
LOGS = ("user-stdout/current", "user-stderr/current", "user-all/current")
FILES = ("events.jsonl", "runtime.log", "supervisor.log", "log-times/runtime.log", *LOGS)
IDLE_SEC, LINES = 6.0, 20
TICK = os.sysconf("SC_CLK_TCK")


class Served:
    """The pipes of a `serve-run`."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen([*SERVE, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def read(self, timeout_sec: float) -> bytes | None:
        out = _open(self.process.stdout)
        return os.read(out, 1 << 16) if select.select([out], [], [], timeout_sec)[0] else None

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(_open(self.process.stdin), view) :]

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()
        self.process.wait(30)

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK


def _open(pipe: IO[bytes] | None) -> int:
    assert pipe
    return pipe.fileno()


def make(run: Path, tasks: int) -> None:
    """The run folder of a job whose tasks run."""
    (run / "cluster").mkdir(parents=True)
    (run / "events.jsonl").write_text("{}\n" * tasks)
    for number in range(tasks):
        task = run / "attempt-0" / f"worker-{number}"
        for name in (*FILES, *(f"log-times/{log}" for log in LOGS)):
            (task / name).parent.mkdir(parents=True, exist_ok=True)
            (task / name).write_text(f"{name}: one line of a task\n")
        (task / mirroring.MARK).write_text("0")


class WatchedCopy(LocalCopy):
    """Notes when each line came."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.came: dict[str, float] = {}

    def take(self, frame: LinkFrame) -> None:
        super().take(frame)
        for line in frame.body.decode().splitlines() if len(frame.body) < 1000 else ():
            self.came.setdefault(line, time.monotonic())


class Writer(threading.Thread):
    """Prints a line of some task now and then, and notes when."""

    def __init__(self, run: Path, tasks: int) -> None:
        super().__init__(daemon=True)
        self._run, self._tasks = run, tasks
        self.written: dict[str, float] = {}

    def run(self) -> None:
        chance = random.Random(1)
        for number in range(LINES):
            time.sleep(0.2 + 0.3 * chance.random())
            task = self._run / f"attempt-0/worker-{chance.randrange(self._tasks)}"
            line = f"line {number} is new"
            with open(task / "user-all/current", "a") as log:
                self.written[line] = time.monotonic()
                log.write(f"{line}\n")
            (task / mirroring.MARK).write_text(f"{number}")


def measure(tasks: int) -> None:
    """Copy, follow, and print."""
    with tempfile.TemporaryDirectory() as name:
        there, here = Path(name, "there"), Path(name, "here")
        make(there, tasks)
        (here / "cluster").mkdir(parents=True)
        began, used = time.monotonic(), time.process_time()
        stream, copy = Served(there), WatchedCopy(Run(here))
        session = CopySession(stream)
        session.start(copy, CopyOrder(follow=True))
        assert session.next(600), "it was not copied in ten minutes"
        print(f"{tasks} tasks")
        row("until it is copied, s", time.monotonic() - began)
        row("CPU time of that here, s", time.process_time() - used)
        row("CPU time of that there, s", stream.cpu())
        used = follow(session, time.monotonic() + 3.0, stream)  # what has just been written is looked at more often
        row("CPU there while nothing changes, %", 100 * follow(session, time.monotonic() + IDLE_SEC, stream) / IDLE_SEC)
        lags = sorted(lags_of_lines(session, copy, there, tasks))
        row("lag of a line, median, s", statistics.median(lags))
        row("the longest, s", lags[-1])
        session.close()
        copy.close()


def follow(session: CopySession, end: float, stream: Served) -> float:
    """Take what comes until then. Returns the CPU time of the other side."""
    before = stream.cpu()
    while (left := end - time.monotonic()) > 0:
        session.next(left)
    return stream.cpu() - before


def lags_of_lines(session: CopySession, copy: WatchedCopy, there: Path, tasks: int) -> list[float]:
    """The seconds until each of the lines was here."""
    writer = Writer(there, tasks)
    writer.start()
    end = time.monotonic() + 60
    while writer.is_alive() or writer.written.keys() - copy.came.keys():
        session.next(0.1)
        assert time.monotonic() < end, "a line has not come"
    return [copy.came[line] - when for line, when in writer.written.items()]


def row(what: str, value: float) -> None:
    print(f"  {what:<40}{value:>10.2f}", flush=True)


if __name__ == "__main__":
    for size in [int(text) for text in sys.argv[1:]] or [10, 1000]:
        measure(size)
