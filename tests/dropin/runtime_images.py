"""The image of the runtime, for tests that start containers of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kedge.bundle import busybox

IN_CONTAINERS = [
    pytest.mark.containers,
    pytest.mark.skipif(not shutil.which("podman"), reason="there is no podman to run containers with"),
    pytest.mark.skipif(not busybox.find(), reason="busybox-static is not installed, which the image needs"),
]


def podman(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stderr
    return done
