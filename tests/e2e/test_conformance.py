"""What every engine does in the same way, on each of them."""

from __future__ import annotations

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .conftest import Kedge


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(on_engine: Kedge, name: str) -> None:
    BEHAVIOURS[name](on_engine)
