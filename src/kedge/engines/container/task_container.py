"""The container of one task attempt, as far as the backend knows it."""

from __future__ import annotations

import signal
from concurrent.futures import Future
from dataclasses import dataclass, field

from kedge.engines.container.container_spec import ContainerSpec
from kedge.engines.container.engine_answers import RunningContainer
from kedge.engines.controller.reports import Launch


@dataclass(slots=True)
class TaskContainer:
    """A container from the moment it is asked for. `signals` wait until its supervisor can take them."""

    launch: Launch
    name: str
    starting: Future[None] | None = None
    spec: ContainerSpec | None = None
    workdir: str = "/"  # the image's
    process: RunningContainer | None = None
    up: bool = False  # its supervisor has reported
    killed: bool = False  # by kedge
    end_seen: float = 0.0  # when its end was seen, in time.monotonic()
    ending: Future[None] | None = None
    signals: list[signal.Signals] = field(default_factory=list)
