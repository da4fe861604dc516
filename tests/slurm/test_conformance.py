"""The behaviours that all engines share, on a Slurm cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .kedge_on_slurm import OnSlurm

# The batch script starts a controller again that was killed (test_ends.py), so the run is not lost.
SHARED = {name: behaviour for name, behaviour in BEHAVIOURS.items() if name != "a job whose controller was killed"}


# srun ends its step on SIGTERM and SIGINT, rather than pass them on: the program is killed.
NOT_YET = {"a program beside a task gets the signals of kedge exec"}
CASES = [
    pytest.param(behaviour, id=name, marks=[pytest.mark.xfail(strict=True)] if name in NOT_YET else [])
    for name, behaviour in SHARED.items()
]


@pytest.mark.parametrize("behaviour", CASES)
def test_behaviour(kedge: OnSlurm, behaviour: Callable[[OnSlurm], None]) -> None:
    if "busybox" in str(behaviour) and not shutil.which("busybox"):
        pytest.skip("peers talk through busybox, which this machine does not have")
    behaviour(kedge)
