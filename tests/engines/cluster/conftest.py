"""A run on a cluster that is this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from .scene import ClusterScene


@pytest.fixture
def scene(tmp_path: Path) -> ClusterScene:
    return ClusterScene.made(tmp_path)
