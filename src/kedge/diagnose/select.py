"""Which of the candidates ended the process.

Errors after which the work went on are left out. Of the rest a cause beats its symptoms, a reason beats a mere effect
(killed, aborted), and the first beats what followed from it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from kedge.diagnose import lines
from kedge.diagnose.candidates import Candidate
from kedge.diagnose.text import Log

WEAK = 20  # below this rank: an effect without an explanation
SPECIFIC = 40  # from this rank on: the text itself names the reason
TAIL_LINES = 4000
GOES_ON = 3  # lines of progress after an error that was printed by who caught it
GOES_ON_UNCAUGHT = 40  # after one that ended a process: a loop of runs, or buffered output of others


class Choice(NamedTuple):
    """The answer (None: nothing ended the process), all live candidates, and whether others contradict it."""

    best: Candidate | None
    live: list[Candidate]
    recovered: list[Candidate]


class Tail:
    """Where the end of a log shows progress, and whether it ends in success."""

    def __init__(self, log: Log) -> None:
        last = log.line(max(0, len(log.text.rstrip()) - 1)) if log.text else None
        tail = [last, *log.before(last, TAIL_LINES)][::-1] if last else []
        self._progress: dict[str, list[int]] = {}
        for line in tail:
            if lines.progress(line):
                self._progress.setdefault(line.rank, []).append(line.start)
        self.success = next((line.start for line in reversed(tail[-40:]) if lines.success(line)), -1)
        self.error = next((line for line in reversed(tail[-40:]) if lines.error(line)), None)
        self.last = last

    def progress(self, candidate: Candidate, until: int | None = None) -> int:
        """How many lines of progress, of the same rank, follow a candidate."""
        rank = candidate.line.rank
        starts = self._progress.get(rank, []) if rank else sorted(sum(self._progress.values(), []))
        end = len(starts) if until is None else bisect_right(starts, until)
        return max(0, end - bisect_right(starts, candidate.end))


def choose(candidates: list[Candidate], tail: Tail) -> Choice:
    """The candidate that ended the process."""
    recovered = [c for c in candidates if _recovered(c, tail)]
    live = [c for c in candidates if not _recovered(c, tail)]
    serious = [c for c in live if not c.calm]
    for group in (
        _first([c for c in serious if c.role == "root" and c.rank >= WEAK], tail),
        _strongest([c for c in serious if c.role == "root"]),
        _strongest([c for c in serious if c.role == "symptom"]),
    ):
        if group:
            return Choice(group, live, recovered)
    return Choice(None, live, recovered)


def _recovered(candidate: Candidate, tail: Tail) -> bool:
    if candidate.trace and not candidate.uncaught and -1 < candidate.end < tail.success:
        return True
    return tail.progress(candidate) >= (GOES_ON_UNCAUGHT if candidate.uncaught or not candidate.trace else GOES_ON)


def _first(roots: list[Candidate], tail: Tail) -> Candidate | None:
    """The first reason; the most specific one of its incident; a plain line only if no work lies between it and a crash."""
    if not roots:
        return None
    best = min(roots, key=_position)
    following = [c for c in roots if c.uncaught and c.start > best.end]
    if not best.trace and following and best.rank < SPECIFIC + 15 and tail.progress(best, until=following[0].start):
        best = following[0]
    same = [c for c in roots if c.start == best.start]
    return max(same, key=lambda c: (c.rank, _depth(c)))


def _position(candidate: Candidate) -> int:
    return candidate.start


def _depth(candidate: Candidate) -> int:
    """Later exceptions of a chain win over earlier ones, except over their direct cause."""
    if not candidate.trace or not candidate.block:
        return 0
    if candidate.block.message == candidate.trace.decisive.message:
        return 100
    return -candidate.line.start


def _strongest(candidates: list[Candidate]) -> Candidate | None:
    return min(candidates, key=lambda c: (-c.rank, c.start)) if candidates else None
