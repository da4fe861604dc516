"""What a command does that was forked, before it is kedge: see forked.py, which gives the values."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kedge.__main__ import main


def become(args: Sequence[str], folder: Path, environment: Mapping[str, str], files: tuple[Path, Path]) -> None:
    """Be a process as a shell would start it, but for the loading."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    streams = [os.open(os.devnull, os.O_RDONLY), *(os.open(file, os.O_WRONLY) for file in files)]
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
    sys.argv = ["kedge", *args]
    main()


if __name__ == "__main__":
    become(globals()["args"], globals()["folder"], globals()["environment"], globals()["files"])
