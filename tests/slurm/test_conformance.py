"""The behaviours that all engines share, on a Slurm cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .kedge_on_slurm import OnSlurm

# The batch script starts a controller again that was killed (test_ends.py), so the run is not lost.
SHARED = {name: behaviour for name, behaviour in BEHAVIOURS.items() if name != "a job whose controller was killed"}


@pytest.mark.parametrize("behaviour", SHARED.values(), ids=SHARED)
def test_behaviour(kedge: OnSlurm, behaviour: Callable[[OnSlurm], None]) -> None:
    behaviour(kedge)
