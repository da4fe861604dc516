"""Requirements of the zoo's programs, with the reason for skipping where one is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Need(NamedTuple):
    """A property of the machine; `reason` names what is missing."""

    met: bool
    reason: str

    def require(self) -> None:
        if not self.met:
            pytest.skip(self.reason)


def program(name: str) -> Need:
    return Need(shutil.which(name) is not None, f"there is no {name} on this machine")


def module(name: str) -> Need:
    return Need(importlib.util.find_spec(name) is not None, f"the package {name} is not installed")


def _can_unshare(*options: str) -> bool:
    """Whether a program can be started in its own namespaces."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode == 0


MOUNT = Need(os.geteuid() == 0 and _can_unshare("--mount"), "mounting file systems needs root and its capabilities")
NETWORKS = Need(_can_unshare("--map-root-user", "--net"), "network namespaces are not allowed here")
MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")
CGROUP = Need(
    os.access(MEMORY_CGROUPS / "cgroup.procs", os.W_OK),
    "limiting memory needs root and the memory controller of cgroup v1",
)
TORCH, NUMPY = module("torch"), module("numpy")
COMPILER, GIT, MPIRUN = program("gcc"), program("git"), program("mpirun")
