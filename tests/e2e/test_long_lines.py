"""Endless lines: kedge needs little memory for anything that a task prints or puts in place of its logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.contract import CURRENT, EVENTS_FILE, USER_ALL, USER_STDERR

from .conftest import TIMEOUT, Kedge

MEMORY_MIB = 100  # kedge needs about 40 for anything
LONG = 48 << 20  # bytes; reading them as one line would take three times as much, or more
# Runs a command, and prints the peak of its memory, or that of the largest process that it waited for, in KiB.
MEASURE = (
    "import resource, subprocess, sys\n"
    "code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)\n"
)


def peak_mib(kedge: Kedge, *args: object) -> int:
    """The peak memory of a command, which must succeed. It is measured by a small process, because the memory that a
    process has before it executes a program counts for the program."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", MEASURE, *kedge.argv(args)],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout) >> 10


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_job_that_prints_a_long_line_is_followed(kedge: Kedge, options: tuple[str, ...]) -> None:
    job = kedge.job("head -c 60000000 /dev/zero | tr '\\0' 'x'; echo; echo done")
    assert peak_mib(kedge, "run", *options, job) < MEMORY_MIB
    assert (kedge.task() / USER_ALL / CURRENT).stat().st_size == 60_000_006


def lengthen(path: Path, ending: bytes) -> None:
    """Append a hole of LONG bytes and a last line, which is fast."""
    with path.open("ab") as file:
        file.truncate(LONG)
        file.seek(LONG)
        file.write(ending)


def test_logs_and_events_of_a_long_line_are_read(kedge: Kedge) -> None:
    kedge("run", kedge.job("echo said; echo more >&2"))
    for stream in (USER_ALL, USER_STDERR):
        lengthen(kedge.task() / stream / CURRENT, b"end\n")
    lengthen(kedge.task() / EVENTS_FILE, b"\n")
    lengthen(kedge.only_run() / EVENTS_FILE, b"\n")
    for args in [("logs", "job"), ("logs", "-f", "job", "worker:0"), ("show", "job")]:
        assert peak_mib(kedge, *args) < MEMORY_MIB


def test_a_lost_run_with_a_long_event_is_shown(kedge: Kedge) -> None:
    kedge("run", kedge.job("true"))
    events = kedge.only_run() / EVENTS_FILE
    whole = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join(line for line in whole if b"-completed" not in line))
    lengthen(kedge.task() / EVENTS_FILE, b"\n")
    assert peak_mib(kedge, "show", "job") < MEMORY_MIB


def test_a_failed_task_with_a_long_line_is_diagnosed(kedge: Kedge) -> None:
    log = kedge.folder / "log"
    log.write_bytes(b"")
    lengthen(log, b"\nMemoryError\n")
    assert peak_mib(kedge, "diagnose", "--exit-code", "1", os.fspath(log)) < 2 * MEMORY_MIB
