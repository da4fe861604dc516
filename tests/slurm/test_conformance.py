"""The behaviours that all engines share, on a Slurm cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .kedge_on_slurm import OnSlurm


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_behaviour(kedge: OnSlurm, behaviour: Callable[[OnSlurm], None]) -> None:
    behaviour(kedge)
