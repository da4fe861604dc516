"""What every engine does in the same way, on each of them."""

from __future__ import annotations

import shutil

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .conftest import Kedge


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(on_engine: Kedge, name: str) -> None:
    behaviour = BEHAVIOURS[name]
    if on_engine.engine == "local" and "busybox" in str(behaviour) and not shutil.which("busybox"):
        pytest.skip("peers talk through busybox, which this machine does not have")
    behaviour(on_engine)
