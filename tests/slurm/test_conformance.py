"""The behaviours that all engines share, on a Slurm cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .kedge_on_slurm import OnSlurm

# The batch script starts a controller again that was killed (test_ends.py), so the run is not lost. A closed terminal
# on a login node leaves the job alone (test_jobs.py).
OTHER = {"a job whose controller was killed", "a closed terminal stops the job"}
SHARED = {name: behaviour for name, behaviour in BEHAVIOURS.items() if name not in OTHER}


@pytest.mark.parametrize("behaviour", [pytest.param(behaviour, id=name) for name, behaviour in SHARED.items()])
def test_behaviour(kedge: OnSlurm, behaviour: Callable[[OnSlurm], None]) -> None:
    if "busybox" in str(behaviour) and not shutil.which("busybox"):
        pytest.skip("peers talk through busybox, which this machine does not have")
    behaviour(kedge)
