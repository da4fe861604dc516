"""The record of the srun processes of a controller, for the one that takes its place if it is killed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from kedge import processes
from kedge.own_files import open_own, write_all
from kedge.processes import Process
from kedge.runs.atomic_files import disk_errors
from kedge.untrusted import parse


class StepProcess(NamedTuple):
    """The srun of one role in one job attempt. Only in the boot `boot` does `process` mean something."""

    attempt: int
    role: str
    process: Process
    boot: str

    @property
    def is_here(self) -> bool:
        """Whether it still runs."""
        return self.boot == processes.boot_id() and processes.is_alive(self.process)


def add(path: Path, step: StepProcess) -> None:
    """Append a process to the record. DiskFull."""
    value = {
        "attempt": step.attempt,
        "role": step.role,
        "pid": step.process.pid,
        "start_time": step.process.start_time,
        "boot": step.boot,
    }
    with disk_errors(path):
        fd = open_own(path, os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            write_all(fd, f"\n{json.dumps(value)}\n".encode())  # after a torn line, too
            os.fsync(fd)
        finally:
            os.close(fd)


def read(path: Path, attempt: int) -> dict[str, StepProcess]:
    """The latest process of each role in a job attempt. Torn lines are ignored."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    found = []
    for line in lines:
        try:
            data = parse(line)
            process = Process(int(data["pid"]), int(data["start_time"]))
            found.append(StepProcess(int(data["attempt"]), str(data["role"]), process, str(data["boot"])))
        except (KeyError, TypeError, ValueError):
            continue
    return {step.role: step for step in found if step.attempt == attempt}
