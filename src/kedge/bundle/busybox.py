"""The program that is `sh` and the other small programs of the runtime's image: a static busybox."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kedge.bundle import elf

PACKAGE = "busybox-static"  # Debian's
LICENCE = "GPL-2.0-only"
_USUAL = ("/usr/bin", "/bin")


def find() -> Path | None:
    """The busybox of this machine: the first one in PATH that is static, because the image has no C library."""
    folders = [*filter(None, os.environ.get("PATH", "").split(":")), *_USUAL]
    paths = (Path(folder, "busybox") for folder in folders)
    return next((path for path in paths if path.is_file() and _is_static(path)), None)


def applets(program: Path) -> list[str]:
    """The names under which busybox is a program of its own."""
    done = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True)
    return sorted(name for name in done.stdout.split() if name != "busybox")


def version(program: Path) -> str:
    """What busybox calls itself: `BusyBox v1.35.0 (Debian 1:1.35.0-4)`."""
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    return done.stdout.partition(" multi-call")[0]


def _is_static(path: Path) -> bool:
    data = path.read_bytes()
    return elf.is_elf(data) and elf.interpreter(data) is None
