from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 2 MiB, that can really be full."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", path], capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mount.stderr.strip()}")
    yield path
    subprocess.run(["umount", path], check=True)
