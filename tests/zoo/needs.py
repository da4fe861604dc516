"""What a program of the zoo cannot do without, and the reason to give where it is not there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from typing import NamedTuple

import pytest


class Need(NamedTuple):
    """Something about the machine; `reason` says what is missing."""

    met: bool
    reason: str

    def require(self) -> None:
        if not self.met:
            pytest.skip(self.reason)


def program(name: str) -> Need:
    return Need(shutil.which(name) is not None, f"there is no {name} on this machine")


def module(name: str) -> Need:
    return Need(importlib.util.find_spec(name) is not None, f"the package {name} is not installed")


def _separate_network() -> bool:
    """Whether a program can be started without any network, by root or in a user namespace."""
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True, check=False)
    return done.returncode == 0


ROOT = Need(os.geteuid() == 0, "only root can mount file systems and limit memory")
NAMESPACES = Need(_separate_network(), "network namespaces are not allowed here")
TORCH, NUMPY = module("torch"), module("numpy")
COMPILER, GIT, MPIRUN = program("gcc"), program("git"), program("mpirun")
