"""The tasks of a job attempt that are still to start, and when."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from kedge.engines.base import Task


class StartQueue:
    """Tasks in the order in which they may start. Times are from time.monotonic()."""

    def __init__(self, tasks: Iterable[tuple[float, int, Task]]) -> None:
        """`tasks`: the time, the place among those of the same time, and the task."""
        self._heap = list(tasks)
        heapq.heapify(self._heap)

    @property
    def due(self) -> float:
        """When the next task may start; infinite if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def add(self, when: float, place: int, task: Task) -> None:
        heapq.heappush(self._heap, (when, place, task))

    def next(self, now: float) -> Task | None:
        """Take out the next task if it may start."""
        return heapq.heappop(self._heap)[2] if self.due <= now else None

    def clear(self) -> None:
        self._heap.clear()
