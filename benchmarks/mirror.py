"""Measures how the logs of tasks come to the controller of a job on a cluster: through a shared run folder, and over
the link where there is none.

    python benchmarks/mirror.py [MEBIBYTES [TASKS]]

TASKS (1) tasks with real agents print MEBIBYTES (1024) of 120-byte lines each, once as fast as they can, and once 100
MB/s, where the longest time that one write of 64 KiB has taken is measured: that is how long a task was held up. Every
byte is in two logs: of its stream, and of both. Shown are the bytes that the controller has got in the end, per second
of the whole job; the CPU time of the controller and of the agents for each of these MB; and the largest memory of each.
The logs are compared byte by byte with what was printed.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from link import Agents, cpu, memory, plan

from kedge.engines.base import Ended, Task
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.settings import ClusterSettings
from kedge.jobs import link_keys
from kedge.open_files import raise_limit
from kedge.processes import descendants
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run

LINE = b"step 1234 loss=0.4821 acc=0.9130 lr=3e-4 [worker:3] 2026-02-01T02:54:48 train.py:88".ljust(119, b".") + b"\n"
PIECE = 546 * LINE  # 64 KiB
PACE = 100e6  # bytes/s
TICK = os.sysconf("SC_CLK_TCK")


def print_lines(mebibytes: int, pace: float) -> None:
    """What a task does: the last line on stderr is the longest time that a write has taken."""
    begin, longest = time.monotonic(), 0.0
    for number in range(mebibytes * 16):
        if pace and (early := number * len(PIECE) / pace - (time.monotonic() - begin)) > 0:
            time.sleep(early)
        before = time.monotonic()
        os.write(1, PIECE)
        longest = max(longest, time.monotonic() - before)
    os.write(2, f"{longest:.6f}\n".encode())


class Controller:
    """The backend of cluster engines with real agents."""

    def __init__(self, folder: Path, command: str, tasks: int, mirrored: bool) -> None:
        self.run, self.tasks, self.ended = Run(folder / "run"), tasks, 0
        for path in (self.run.path, self.run.job_dir, self.run.path / "cluster"):
            path.mkdir()
        keys = link_keys.made()
        server = LinkServer(keys, lambda *who: self.backend.expects(*who), "benchmark")
        self.agents = Agents(keys, folder, tasks, tasks)
        self.agents.port = server.port
        self.agents.mirrored = 0 if mirrored else None
        settings = ClusterSettings(shares_folder=not mirrored)
        self.backend = ClusterBackend(
            plan(tasks, command), self.run, Secrets({}, {}), keys, server, self.agents, print_note, print_note, settings
        )
        self.agent_cpu: dict[int, float] = {}
        self.agent_memory = 0

    def launch(self) -> None:
        self.backend.place(0)
        for number in range(self.tasks):
            self.backend.start(Task("worker", number), 0, 0, ())

    def turn(self, longest: float) -> None:
        wait = min(longest, max(0.0, self.backend.due - time.monotonic()))
        select.select([self.backend.fileno()], [], [], wait)
        self.ended += sum(isinstance(update, Ended) for update in self.backend.poll())

    def look_at_agents(self) -> None:
        """Their CPU time and memory so far."""
        for keeper in [each.pid for each in self.agents._processes]:
            for pid in [each.pid for each in descendants(keeper)]:
                try:
                    if b"runtime/agent" not in Path(f"/proc/{pid}/cmdline").read_bytes() or os.getsid(pid) != pid:
                        continue
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                self.agent_cpu[pid] = (int(fields[11]) + int(fields[12])) / TICK
                self.agent_memory = max(self.agent_memory, int(status.partition("VmHWM:")[2].split()[0]))


def print_note(*what: object, **facts: object) -> None:
    print(*what, facts, file=sys.stderr)


def measure(mebibytes: int, tasks: int, mirrored: bool, pace: float) -> dict[str, float]:
    """What one kind of job takes, by what it is."""
    command = f"exec {sys.executable} {__file__} --print {mebibytes} {pace}"
    with tempfile.TemporaryDirectory(dir=os.path.abspath(os.environ.get("TMPDIR", "."))) as name:
        controller = Controller(Path(name), command, tasks, mirrored)
        before, _ = memory()
        controller.launch()
        begin, began, look = time.monotonic(), cpu(), 0.0
        while controller.ended < tasks:
            controller.turn(0.1)
            if time.monotonic() > look:
                controller.look_at_agents()
                look = time.monotonic() + 0.1
        took, used = time.monotonic() - begin, cpu() - began
        stalls, got = [], 0
        for number in range(tasks):
            folder = controller.run.task("worker", number, 0, 0)
            for stream in ("user-stdout", "user-all"):
                got += check(folder / stream, mebibytes)
            stalls.append(float((folder / "user-stderr" / "current").read_text()))
        controller.backend.close()
    whole = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "logs, MB": got / 1e6,
        "until the job has ended, s": took,
        "logs, MB/s": got / 1e6 / took,
        "longest write of a task, ms": 1000 * max(stalls),
        "CPU of the controller, ms/MB": used * 1e9 / got,
        "CPU of the agents, ms/MB": sum(controller.agent_cpu.values()) * 1e9 / got,
        "CPU at the nodes, ms/MB": (whole.ru_utime + whole.ru_stime) * 1e9 / got,
        "memory of the controller, MiB": (memory()[1] - before) / 1024,
        "memory of an agent, MiB": controller.agent_memory / 1024,
    }


def check(folder: Path, mebibytes: int) -> int:
    """The bytes of a stream's files, which must be what was printed from some line on."""
    size = 0
    for path in sorted(folder.iterdir(), key=lambda path: (path.name == "current", path.name)):
        with path.open("rb") as file:
            while data := file.read(len(PIECE)):
                lines = data.replace(LINE, b"")
                assert not lines or (folder.name == "user-all" and lines.count(b"\n") == 1), f"{path}: {lines[:200]!r}"
                size += len(data)
    whole = mebibytes * 16 * len(PIECE)
    assert size >= min(whole, 256 << 20), f"{folder}: {size} bytes of {whole}"
    return size


def main(mebibytes: int, tasks: int) -> None:
    """Measure each in a process of its own, and print."""
    rows: dict[str, list[float]] = {}
    for pace in (0.0, PACE):
        for mirrored in (0, 1):
            argv = [sys.executable, __file__, "--measure", str(mebibytes), str(tasks), str(mirrored), str(pace)]
            found = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
            for what, value in found.items():
                rows.setdefault(what, []).append(value)
    print(f"{tasks} tasks, {mebibytes} MiB each")
    print(f"{'':<32}{'as fast as they can':^24}{'100 MB/s each':^24}")
    print(f"{'':<32}" + f"{'shared':>12}{'link':>12}" * 2)
    for what, values in rows.items():
        print(f"{what:<32}" + "".join(f"{value:>12.2f}" for value in values))


if __name__ == "__main__":
    raise_limit()
    if sys.argv[1:2] == ["--print"]:
        print_lines(int(sys.argv[2]), float(sys.argv[3]))
    elif sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*map(int, sys.argv[2:4]), sys.argv[4] == "1", float(sys.argv[5]))))
    else:
        main(*[*map(int, sys.argv[1:]), *[1024, 1][len(sys.argv) - 1 :]])
