"""The behaviours that all engines share, on a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .kedge_on_kubernetes import OnKubernetes

# The Job starts a driver again that was killed, so the run is not lost. A closed terminal leaves the job alone.
OTHER = {"a job whose controller was killed", "a closed terminal stops the job"}
SHARED = {name: behaviour for name, behaviour in BEHAVIOURS.items() if name not in OTHER}


@pytest.mark.parametrize("behaviour", [pytest.param(behaviour, id=name) for name, behaviour in SHARED.items()])
def test_behaviour(kedge: OnKubernetes, behaviour: Callable[[OnKubernetes], None]) -> None:
    behaviour(kedge)
