"""Measures how fast `kedge logs` merges the logs of many tasks by time, and how much memory that takes.

    python benchmarks/merged_logs.py [TASKS [MEBIBYTES [FOLDER]]]

Writes user-all of TASKS (100) tasks with MEBIBYTES (10) each of 120-byte lines, as the supervisor does: once in pieces
of 64 KiB, as from tasks that print a lot, and once line by line. The tasks print in turns, so that the merge changes
from task to task all the time. Prints seconds, CPU seconds and peak MiB of `cat` of all files and of `kedge logs` into
/dev/null. FOLDER (.) should be on a disk.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator

from kedge.contract import USER_ALL, LogPolicy, timestamp
from kedge.runs import folder
from kedge.runs.events import EventLog
from kedge.runs.folder import RunInfo
from kedge.runs.job_events import JobEvent
from kedge.runtime.files import Faults
from kedge.runtime.logs.rotate import RotatingFile

LINE = b"step 1234 loss=0.4821 acc=0.9130 lr=3e-4 2026-02-01T02:54:48 /mnt/data/train.py:88".ljust(119, b".") + b"\n"
PIECES = {"64 KiB": 546 * LINE, "one line": LINE}
BEGIN = 1_700_000_000 * 10**9  # nanoseconds since 1970
STEP = 1_000_000  # nanoseconds from one piece of a task to its next


def main() -> None:
    """Measure and print."""
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    size = (int(sys.argv[2]) if len(sys.argv) > 2 else 10) << 20
    place = sys.argv[3] if len(sys.argv) > 3 else "."
    print(f"{tasks} tasks of {size >> 20} MiB")
    print(f"{'pieces':<12}{'command':<36}{'s':>8}{'CPU s':>8}{'MiB':>8}")
    for pieces, data in PIECES.items():
        with tempfile.TemporaryDirectory(dir=os.path.abspath(place)) as name:
            os.environ["XDG_STATE_HOME"] = name
            end = write(tasks, size, data)
            for command, argv in commands(name, end).items():
                wall, cpu, peak = measured(argv)
                print(f"{pieces:<12}{command:<36}{wall:>8.2f}{cpu:>8.2f}{peak:>8.0f}", flush=True)


def write(tasks: int, size: int, data: bytes) -> int:
    """Make a run with these logs. Returns the time of the last piece."""
    jobs = folder.jobs_dir(os.environ)
    run = folder.create(jobs, "merged")
    run.save(RunInfo(run.id, "merged", "me", "local", timestamp(time.time_ns()), "0", "job.yaml"))
    run.make_attempt(0)
    with EventLog(run.events) as events:
        events.append(JobEvent.JOB_SUBMITTED, roles={"worker": tasks})
        events.append(JobEvent.JOB_COMPLETED, state="succeeded", code=0, text="")
    end = BEGIN
    for task in range(tasks):
        clock = ticks(BEGIN + task * STEP // tasks)
        stream = run.task("worker", task, 0) / USER_ALL
        file = RotatingFile(str(stream), LogPolicy(), Faults(), lambda path, size: None, clock=clock.__next__)
        for _ in range(size // len(data)):
            file.write([data])
        file.close()
        end = max(end, next(clock))
    return end


def ticks(begin: int) -> Iterator[int]:
    """The times of a task's pieces."""
    while True:
        yield begin
        begin += STEP


def commands(place: str, end: int) -> dict[str, list[str]]:
    """What is measured."""
    logs = [sys.executable, "-m", "kedge", "logs", "merged"]
    last = timestamp(end - 100 * STEP)[:26] + "Z"
    return {
        "cat": ["sh", "-c", f"find {place} -path '*/user-all/*' ! -path '*/log-times/*' -exec cat {{}} +"],
        "kedge logs": logs,
        "kedge logs --timestamps": [*logs, "--timestamps"],
        "kedge logs --tail 1000": [*logs, "--tail", "1000"],
        "kedge logs --since (the last 0.1 s)": [*logs, "--since", last],
    }


def measured(argv: list[str]) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak MiB of a command."""
    begin = time.perf_counter()
    pid = os.posix_spawnp(
        argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, json.dumps(argv)
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
