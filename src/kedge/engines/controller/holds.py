"""The hold of a failed task: the first one of a run stays alive for its user, and nothing is decided meanwhile."""

from __future__ import annotations

from kedge.engines.base import Ended, Task


class RunHold:
    """The one hold of a run. `run` is its id, `task` the task that is held now."""

    def __init__(self, run: str = "") -> None:
        self.run = run
        self.task: Task | None = None
        self.releases_seen = 0
        self._used = False
        self._later: list[Ended] = []

    def begin(self, task: Task) -> bool:
        """A task would be held. Whether it is: only the first of a run."""
        first, self._used = not self._used, True
        if first:
            self.task = task
        return first

    def postpones(self, update: Ended) -> bool:
        """Whether the end of a task is dealt with after the hold of another, and remembered for that."""
        if self.task is None or update.task == self.task:
            return False
        self._later.append(update)
        return True

    def has_ended(self, task: Task) -> bool:
        """Whether the end of this task is postponed."""
        return any(update.task == task for update in self._later)

    def over(self) -> list[Ended]:
        """The hold is over: the ends of tasks that were postponed."""
        self.task = None
        later, self._later = self._later, []
        return later
