"""A round of every attack with a fixed seed. `make soak` runs random ones; docs/reliability.md lists the invariants."""

from __future__ import annotations

import pytest

from .attacks import ATTACKS
from .rounds import play

SEED = 1


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_promised_holds(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    attack = ATTACKS[name]
    if why := attack.ready():
        pytest.skip(why)
    shared = tmp_path_factory.getbasetemp().parent
    result = play(attack, SEED, shared / "faults", shared / "cache")
    assert not result.broke, str(result)
