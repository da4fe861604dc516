"""The container of one task attempt, as the backend follows it."""

from __future__ import annotations

import signal
from concurrent.futures import Future
from dataclasses import field

from kedge.engines.base import Deadline
from kedge.engines.container.api.engine_answers import RunningContainer
from kedge.engines.container.rendering.container_spec import ContainerSpec
from kedge.engines.controller.reports import Launch
from kedge.quick_dataclasses import dataclass


@dataclass(slots=True)
class TaskContainer:
    """A container from its request on. `signals` are kept until its supervisor can receive them."""

    launch: Launch
    name: str
    deadlines: tuple[Deadline, ...] = ()
    starting: Future[None] | None = None
    spec: ContainerSpec | None = None
    workdir: str = "/"  # the image's
    process: RunningContainer | None = None
    up: bool = False  # its supervisor has sent an event
    killed: bool = False  # by kedge
    end_seen: float = 0.0  # when its end was seen, in time.monotonic()
    ending: Future[None] | None = None
    signals: list[signal.Signals] = field(default_factory=list)
