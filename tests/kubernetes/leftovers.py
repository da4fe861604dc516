"""What a test cluster leaves on its machine besides processes and its folder: bridges and control groups."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from .addresses import NODES, Addresses
from .programs import path

CGROUPS = Path("/sys/fs/cgroup")
_DEADLINE = 20.0  # seconds, until the kernel has let go of what was killed


def cgroup_folders(group: str) -> list[Path]:
    """The folders of a control group: one for each controller with version 1, one with version 2."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / group.lstrip("/")]
    return [each / group.lstrip("/") for each in sorted(CGROUPS.iterdir()) if each.is_dir() and not each.is_symlink()]


def remove(addresses: Addresses) -> None:
    """Remove the bridges and control groups of a cluster whose processes have ended."""
    for link in (addresses.bridge, *(addresses.pod_bridge(node) for node in NODES)):
        subprocess.run(["ip", "link", "delete", link], env={"PATH": path()}, capture_output=True, check=False)
    end = time.monotonic() + _DEADLINE
    for folder in cgroup_folders(addresses.cgroup()):
        while not _removed(folder) and time.monotonic() < end:
            time.sleep(0.1)


def _removed(folder: Path) -> bool:
    for place, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(place)
        except OSError:  # a process in it is not quite gone
            return False
    return True
