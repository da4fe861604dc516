"""Which processes belong to the services, the programs that run beside the command."""

from __future__ import annotations

from kedge.light.types import Iterable
from kedge.runtime.process.procfs import ProcessStat


class ServiceProcesses:
    """The process groups of the services. What a service has moved to another group is still its own as long as its
    parent is."""

    def __init__(self) -> None:
        self._groups: set[int] = set()

    def add(self, pid: int) -> None:
        """A service was started; its pid is its process group."""
        self._groups.add(pid)

    def split(self, found: list[ProcessStat]) -> tuple[list[ProcessStat], list[ProcessStat]]:
        """Those of all descendants, parents before children, that belong to services, and the others."""
        if not self._groups:
            return [], found
        # The kernel may use the number of a group that is gone again.
        self._groups &= {each.group for each in found}
        theirs = _belonging(self._groups, found)
        return [each for each in found if each.pid in theirs], [each for each in found if each.pid not in theirs]

    def of(self, pid: int, found: list[ProcessStat]) -> list[ProcessStat]:
        """Those of all descendants that belong to one service."""
        theirs = _belonging({pid} & self._groups, found)
        return [each for each in found if each.pid in theirs]


def _belonging(groups: set[int], found: Iterable[ProcessStat]) -> set[int]:
    pids: set[int] = set()
    for each in found:
        if each.group in groups or each.parent in pids:
            pids.add(each.pid)
    return pids
