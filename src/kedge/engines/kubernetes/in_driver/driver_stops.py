"""The requests to stop a job, in a driver. SIGTERM is not one of them: the kubelet sends it when the driver's pod is to
go (its node is drained, say), and the job goes on with another driver."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

from kedge.engines.controller.stop_requests import Stops


class DriverStops(Stops):
    """`leaves` is called for SIGTERM, in the main thread, and does not return."""

    def __init__(self, leaves: Callable[[], object]) -> None:
        super().__init__()
        self._leaves = leaves

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM and frame is not None:  # with `take`, there is no frame
            self._leaves()
        super()._on_signal(number, frame)
