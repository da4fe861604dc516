"""Which of the candidates ended the process.

Errors after which the work went on are left out. Of the rest a cause beats its symptoms, a reason beats a mere effect
(killed, aborted), and the first beats what followed from it.
"""

from __future__ import annotations

from typing import NamedTuple

from kedge.diagnose.candidates import SPECIFIC, Candidate
from kedge.diagnose.tail import Tail

WEAK = 20  # below this rank: an effect without an explanation
CERTAIN = 60  # from this rank on a plain line needs no crash beside it
EXPLAINS = 50  # a symptom of this rank explains an abort that follows it
# What goes wrong before the program starts is seldom why it failed, unless it failed for want of just that.
SETUP = {"shell_env_setup_failure", "command_not_found", "permission_denied"}
NEEDS_SETUP = {
    "missing_module",
    "import_conflict",
    "shared_lib_missing",
    "abi_mismatch",
    "command_not_found",
    "syntax_error",
}
# Who ends a job from outside says so last; what was printed long before is not why.
ENDERS = {"time_limit", "preempted", "node_failure", "job_cancelled", "host_oom_kill"}
GOES_ON_AFTER_SETUP = 1
GOES_ON_AFTER_LINE = 10
GOES_ON = 5  # lines of progress after an error that was printed by who caught it
GOES_ON_UNCAUGHT = 40  # after one that ended a process: a loop of runs, or buffered output of others


class Choice(NamedTuple):
    """The answer (None: nothing ended the process), all live candidates, and whether others contradict it."""

    best: Candidate | None
    live: list[Candidate]
    recovered: list[Candidate]


def choose(candidates: list[Candidate], tail: Tail) -> Choice:
    """The candidate that ended the process."""
    recovered = [c for c in candidates if _recovered(c, tail)]
    live = [c for c in candidates if not _recovered(c, tail)]
    serious = [c for c in live if not c.calm]
    symptoms = [c for c in serious if c.role == "symptom"]
    reasons = [c for c in serious if c.role == "root" and c.rank >= WEAK]
    effects = [c for c in serious if c.role == "root" and c.rank < WEAK and not _follows(c, symptoms)]
    best = _first(reasons, tail) or _strongest(effects) or _strongest(symptoms)
    return Choice(best, live, recovered)


def _recovered(candidate: Candidate, tail: Tail) -> bool:
    """Whether the work went on after it, or was done in the end."""
    if candidate.cause in ENDERS:
        return False
    if not candidate.uncaught and candidate.rank < CERTAIN and candidate.end < tail.success:
        return True
    return tail.progress(candidate.line, candidate.end) >= _enough(candidate)


def _enough(candidate: Candidate) -> int:
    """After how many lines of progress a candidate counts as recovered."""
    if candidate.trace:
        return GOES_ON_UNCAUGHT if candidate.uncaught else GOES_ON
    return GOES_ON_AFTER_SETUP if candidate.cause in SETUP else GOES_ON_AFTER_LINE


def _follows(effect: Candidate, symptoms: list[Candidate]) -> bool:
    """Whether an abort is the consequence of a symptom that explains it, such as a collective's time-out."""
    return effect.cause == "native_crash" and any(s.rank >= EXPLAINS and s.start <= effect.start for s in symptoms)


def _first(reasons: list[Candidate], tail: Tail) -> Candidate | None:
    """The first reason that nothing later makes unimportant; of its incident, the most specific."""
    if not reasons:
        return None
    best = min(reasons, key=lambda c: c.start)
    while later := next((c for c in reasons if c.start > best.end and _outdone(best, c, tail)), None):
        best = later
    return max((c for c in reasons if c.start == best.start), key=lambda c: (c.rank, _depth(c)))


def _outdone(earlier: Candidate, later: Candidate, tail: Tail) -> bool:
    """Whether the later one ended the process although the earlier one came first."""
    if earlier.uncaught or not (later.uncaught or later.cause in ENDERS):
        return False
    if tail.progress(earlier.line, earlier.end, later.start):
        return True
    if earlier.trace:
        return tail.ordinary(earlier.end, later.start)
    if earlier.cause in SETUP:
        return later.cause not in NEEDS_SETUP
    if earlier.rank < CERTAIN and tail.ordinary(earlier.end, later.start):
        return True
    return earlier.rank < (SPECIFIC + 15 if later.rank >= SPECIFIC else SPECIFIC)


def _depth(candidate: Candidate) -> int:
    """Later exceptions of a chain win over earlier ones, except over their direct cause."""
    if not candidate.trace or not candidate.block:
        return 0
    if candidate.block.message == candidate.trace.decisive.message:
        return 100
    return -candidate.line.start


def _strongest(candidates: list[Candidate]) -> Candidate | None:
    return min(candidates, key=lambda c: (-c.rank, c.start)) if candidates else None
