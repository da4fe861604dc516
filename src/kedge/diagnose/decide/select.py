"""Which of the candidates ended the process.

Errors after which the work went on are left out. Of the rest a cause beats its symptoms, a reason beats a mere effect
(killed, aborted), and the first beats what followed from it.
"""

from __future__ import annotations

from typing import NamedTuple

from kedge.diagnose.decide.candidates import GENERIC, SPECIFIC, Candidate
from kedge.diagnose.log import lines
from kedge.diagnose.log.log_end import LogEnd

WEAK = 20  # below this rank: an effect without an explanation
CERTAIN = 60  # from this rank on a plain line needs no crash beside it
VAGUE = 24  # up to this rank an exception has no more than a name of all purposes
EXPLAINS = 51  # a symptom of this rank explains an abort that follows it
TELLS = 15  # a symptom of this rank tells that something has failed
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
UNEXPLAINED = {"sigkill_unattributed", "sigterm_unattributed"}
# Who ends a job from outside says so last; what was printed long before is not why.
ENDERS = {"time_limit", "preempted", "node_failure", "job_cancelled", "host_oom_kill"}
# What a rank reports as well when one of its peers has died.
BY_PEERS = {"nccl_network", "nccl_init_error", "rendezvous_failure", "network_transient"}
# What a process says for what became of others, or of itself by their hand.
OF_OTHERS = BY_PEERS | {
    "nccl_timeout", "remote_worker_lost", "peer_failure", "user_interrupt", "native_crash", "tracker_failure",
}  # fmt: skip
# What is said of a job that has failed already.
AFTERWARDS = SETUP | OF_OTHERS | (ENDERS - {"host_oom_kill"}) | {"distributed_usage_error", "python_bug"}
# What NCCL reports as an error of CUDA or of the system.
BEHIND_NCCL = {"gpu_oom", "gpu_oom_contention", "shm_exhausted", "gpu_hw_fault", "driver_mismatch"}
# How many lines of progress after an error show that the work went on.
GOES_ON_AFTER_SETUP = 1
FEW = 3
GOES_ON = 5  # printed by who caught it
GOES_ON_AFTER_LINE = 10
GOES_ON_UNCAUGHT = 40  # it ended a process: a loop of runs, or buffered output of others


class Choice(NamedTuple):
    """The answer (None: nothing ended the process), and all that the work did not go on after."""

    best: Candidate | None
    live: list[Candidate]


def choose(candidates: list[Candidate], tail: LogEnd, code_known: bool = True) -> Choice:
    """The candidate that ended the process. Without an exit code, whether any did is for the end of the log to say."""
    live = [c for c in candidates if not _recovered(c, tail) and (code_known or not _came_through(c, tail))]
    serious = [c for c in live if not c.calm]
    roots = [c for c in serious if c.role == "root" and not _follows(c, serious, tail)]
    reasons = [c for c in roots if not effect(c) and not _mere_setup(c, serious, tail)]
    best = (
        _first(reasons, tail)
        or _earliest(_effects(roots))
        or _strongest([c for c in serious if c.role == "symptom"])
        or _earliest(roots)
    )
    return Choice(best, live)


def _effects(roots: list[Candidate]) -> list[Candidate]:
    """Those that only tell what happened; whoever cancels a job says so after the signal that he sends."""
    effects = [c for c in roots if effect(c)]
    cancelled = any(c.cause == "job_cancelled" for c in effects)
    return [c for c in effects if not (cancelled and c.cause == "sigterm_unattributed")]


def effect(root: Candidate) -> bool:
    """Whether it only tells what happened, not why."""
    return root.rank < WEAK or root.cause in UNEXPLAINED


def _recovered(candidate: Candidate, tail: LogEnd) -> bool:
    """Whether the work went on after it, or was done in the end."""
    went_on = tail.progress(candidate.line, candidate.end)
    if candidate.cause in ENDERS:  # a requeued job goes on in the same log; Ray starts a killed worker again
        return candidate.end < tail.success and went_on >= GOES_ON_UNCAUGHT
    if candidate.end < tail.success and not candidate.uncaught and candidate.rank < CERTAIN:
        return bool(candidate.trace or went_on or candidate.cause in SETUP)
    return went_on >= _enough(candidate)


def _came_through(candidate: Candidate, tail: LogEnd) -> bool:
    """Whether the program, by all that a log without an exit code tells, went on to a good end."""
    if candidate.cause in ENDERS or lines.of_launcher(candidate.line):
        return False
    after, continued = tail.progress(candidate.line, candidate.end), tail.continues(candidate.line, candidate.end)
    ends_well = candidate.end < tail.happy_end
    if candidate.uncaught:  # what comes after it may be buffered output, or what a script says whatever happened
        return (continued and after >= GOES_ON) or (ends_well and not after and tail.ends_saved)
    if ends_well and (candidate.trace or after or tail.ordinary(candidate.end, tail.happy_end)):
        return True
    return after >= (FEW if candidate.trace or continued else GOES_ON)


def _enough(candidate: Candidate) -> int:
    """After how many lines of progress a candidate counts as recovered."""
    if candidate.trace:
        return GOES_ON_UNCAUGHT if candidate.uncaught else GOES_ON
    return GOES_ON_AFTER_SETUP if candidate.cause in SETUP else GOES_ON_AFTER_LINE


def _follows(root: Candidate, others: list[Candidate], tail: LogEnd) -> bool:
    """Whether it is only what became of another failure: an abort, a cancelled step, a store that is gone."""
    others = [c for c in others if c.cause != root.cause and c.cause not in SETUP]
    earlier = [c for c in others if c.start <= root.start]
    if root.cause == "native_crash" and root.rank < SPECIFIC and lines.aborted(root.line):
        # Several ranks and threads write: what made one abort may stand after it.
        return any(_told(c, EXPLAINS) for c in earlier) or any(
            c.role == "root" and c.rank >= SPECIFIC and c.cause not in ENDERS | {"remote_worker_lost"} for c in others
        )
    if root.cause == "package_install_failure":  # what did not compile
        return any(c.cause == "extension_build_failure" for c in others)
    if root.cause == "container_failure":  # the hook that was to bring GPUs into it says why
        return any(c.cause in ("driver_mismatch", "gpu_unavailable") for c in others)
    if root.cause == "job_cancelled":
        if any(c.cause in ENDERS and _together(c, root, tail) for c in others):
            return True
        return _fails_before(root, tail) or any(_told(c, TELLS) and c.cause != "sigterm_unattributed" for c in earlier)
    if root.cause == "host_oom_alloc" and not root.rule:  # a bare MemoryError, and the library says of which memory
        return any(c.cause in ("gpu_oom", "gpu_oom_contention") and c.rank >= SPECIFIC for c in others)
    if root.cause == "remote_worker_lost":  # the worker's own crash stands before it
        return any(c.cause == "native_crash" for c in earlier)
    if root.cause == "nccl_init_error":  # "unhandled cuda error", and the next line or another rank says which
        return any(c.role == "root" and c.cause in BEHIND_NCCL for c in others)
    return root.cause == "rendezvous_failure" and any(c.cause == "nccl_timeout" for c in earlier)


def _together(one: Candidate, other: Candidate, tail: LogEnd) -> bool:
    """Whether no work was done between two of them."""
    first, last = sorted((one, other), key=lambda c: c.start)
    return not tail.progress(first.line, first.end, last.start)


def _fails_before(cancelled: Candidate, tail: LogEnd) -> bool:
    """Whether a step (not the whole job) was cancelled right after a task's own last words, which no rule may know."""
    return b" STEP " in cancelled.line.body and tail.error_before(cancelled.line)


def _told(candidate: Candidate, rank: int) -> bool:
    """Whether it is a reason, or a symptom that tells enough."""
    return candidate.role == "root" or candidate.rank >= rank


def _mere_setup(root: Candidate, others: list[Candidate], tail: LogEnd) -> bool:
    """Whether something went wrong in the script before the program started, which then failed for another reason."""
    if root.cause not in SETUP or root.uncaught:
        return False
    failures = [c for c in others if c.cause not in SETUP and (c.role == "root" or c.rank >= EXPLAINS)]
    later = _earliest([c for c in failures if c.start > root.end])
    if not later or later.cause in NEEDS_SETUP:
        return False
    return later.uncaught or tail.ordinary(root.end, later.start)


def _first(reasons: list[Candidate], tail: LogEnd) -> Candidate | None:
    """The first reason that nothing later makes unimportant; of its incident, the most specific."""
    best = _earliest([c for c in reasons if c.cause not in BY_PEERS or not _own_reason(c, reasons)])
    if not best:
        return None
    while later := next((c for c in reasons if c.start > best.end and _outdone(best, c, tail)), None):
        best = later
    return max((c for c in reasons if c.start == best.start), key=lambda c: (c.rank, _depth(c)))


def _own_reason(lost: Candidate, reasons: list[Candidate]) -> bool:
    """Whether another rank failed for a reason of its own, so that this one only lost its peer."""
    others = (c for c in reasons if c.uncaught and c.cause not in BY_PEERS and c.start != lost.start)
    return any(c.rank >= SPECIFIC or c.line.rank != lost.line.rank for c in others)


def _outdone(earlier: Candidate, later: Candidate, tail: LogEnd) -> bool:
    """Whether the later one ended the process although the earlier one came first."""
    if earlier.uncaught:
        return _went_past(earlier, later) or _tells_more(earlier, later, tail)
    if earlier.cause in ENDERS and later.cause not in ENDERS and lines.of_launcher(earlier.line):
        return tail.progress(earlier.line, earlier.end, later.start) >= GOES_ON_AFTER_LINE  # until then it shuts down
    if tail.progress(earlier.line, earlier.end, later.start):
        return True
    if earlier.cause in SETUP and later.cause in NEEDS_SETUP:
        return False
    if not later.uncaught and later.cause not in ENDERS:
        return False
    if not earlier.trace and earlier.rank >= CERTAIN:
        return False
    if earlier.trace and later.trace and (earlier.rank <= later.rank or later.rank >= SPECIFIC):
        return True  # somebody printed the one and went on to the other
    adjacent = not tail.ordinary(earlier.end, later.start)
    return not adjacent or bool(later.uncaught and not earlier.trace and earlier.rank < _needed(later))


def _went_past(earlier: Candidate, later: Candidate) -> bool:
    """Whether a main program printed the one, went on and ended with the other."""
    if not (earlier.trace and later.trace) or earlier.line.rank != later.line.rank or later.cause in BY_PEERS:
        return False
    there, then = earlier.trace.main, later.trace.main
    return there is not None and then is not None and there.before(then)


def _tells_more(vague: Candidate, later: Candidate, tail: LogEnd) -> bool:
    """Whether an exception whose text says nothing is explained by what was said right after it, or by another rank."""
    if vague.rank > VAGUE or vague.cause != GENERIC or later.rank < CERTAIN or later.cause in AFTERWARDS:
        return False
    if later.trace:
        return later.uncaught and later.line.rank != vague.line.rank
    return not tail.ordinary(vague.end, later.start)


def _needed(later: Candidate) -> int:
    """The rank that a plain line needs to be the reason of a crash right after it."""
    return SPECIFIC + 15 if later.rank >= SPECIFIC else SPECIFIC


def _depth(candidate: Candidate) -> int:
    """Later exceptions of a chain win over earlier ones, except over their direct cause."""
    if not candidate.trace or not candidate.block:
        return 0
    if candidate.block.message == candidate.trace.decisive.message:
        return 100
    return -candidate.line.start


def _earliest(candidates: list[Candidate]) -> Candidate | None:
    return min(candidates, key=lambda c: (c.start, -c.rank)) if candidates else None


def _strongest(candidates: list[Candidate]) -> Candidate | None:
    return min(candidates, key=lambda c: (-c.rank, c.start)) if candidates else None
