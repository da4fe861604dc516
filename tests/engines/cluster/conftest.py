"""A run on a cluster that is this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .scene import ClusterScene

KILLS = ("test_adoption", "test_agent_losses", "test_takeover")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is lost or killed is tried without a shared folder, too."""
    if "mirrored" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2] in KILLS:
        metafunc.parametrize("mirrored", [None, 1 << 20], ids=["shared", "mirrored"])


@pytest.fixture
def mirrored() -> int | None:
    """Bytes of outputs, if tasks do not have the run folder."""
    return None


@pytest.fixture
def scene(tmp_path: Path, mirrored: int | None) -> Iterator[ClusterScene]:
    made = ClusterScene.made(tmp_path)
    made.mirrored = mirrored
    yield made
    made.end_agents()
