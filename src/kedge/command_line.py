"""The command line of this process, as `ps` shows it."""

from __future__ import annotations

import os

from kedge.light.contextlib import suppress
from kedge.light.types import Sequence

_PLACE = slice(48 - 3, 50 - 3)  # where it begins and ends in memory; see proc_pid_stat(5), without two fields


def show(argv: Sequence[str]) -> None:
    """Let `ps` show this command line, by overwriting the one that this process was started with, which must be as
    long. Does nothing where the kernel forbids it, or on another system than Linux."""
    with suppress(OSError):
        with open("/proc/self/stat", "rb", buffering=0) as file:
            start, end = map(int, file.read(4096).rpartition(b")")[2].split()[_PLACE])
        text = b"\0".join(map(os.fsencode, argv))[: end - start - 1]
        memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(memory, text.ljust(end - start, b"\0"), start)
        finally:
            os.close(memory)
