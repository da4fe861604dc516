"""A scene for every test: a job of a scripted backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.engines.controller.stop_requests import Stops

from .scripted import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Stops() as stops:
        yield Scene(tmp_path, stops)
