"""Choosing the candidate that ended the process.

Errors after which the work went on are dropped. Among the rest, a cause beats its symptoms, a reason beats a mere
effect (killed, aborted), and the first failure beats those that follow from it.
"""

from __future__ import annotations

from kedge.diagnose.decide.candidates import GENERIC, SPECIFIC, Candidate
from kedge.diagnose.log import lines
from kedge.diagnose.log.log_end import LogEnd
from kedge.light.types import NamedTuple

WEAK = 20  # below this rank: an effect without an explanation
CERTAIN = 60  # from this rank on, a plain line counts without a crash beside it
VAGUE = 24  # up to this rank, an exception has only an unspecific type
EXPLAINS = 51  # a symptom of this rank explains an abort that follows it
SHOWS_FAILURE = 15  # a symptom of this rank shows that something has failed
# A problem before the program starts is seldom why the program failed, unless it needed just what was missing.
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
# Causes from outside the job, whose message comes last; what was printed long before is not the reason.
ENDERS = {"time_limit", "preempted", "node_failure", "job_cancelled", "host_oom_kill"}
# Causes that a rank may also report because one of its peers has died.
BY_PEERS = {"nccl_network", "nccl_init_error", "rendezvous_failure", "network_transient"}
# Causes that a process reports when others failed, or when others ended it.
OF_OTHERS = BY_PEERS | {
    "nccl_timeout", "remote_worker_lost", "peer_failure", "user_interrupt", "native_crash", "tracker_failure",
}  # fmt: skip
# Causes that are reported in a job that has failed already.
AFTERWARDS = SETUP | OF_OTHERS | (ENDERS - {"host_oom_kill"}) | {"distributed_usage_error", "python_bug"}
# Causes that NCCL reports as an error of CUDA or of the system.
BEHIND_NCCL = {"gpu_oom", "gpu_oom_contention", "shm_exhausted", "gpu_hw_fault", "driver_mismatch"}
# Causes that can follow from another failure, see _follows.
MAY_FOLLOW = {
    "native_crash", "package_install_failure", "container_failure", "job_cancelled", "host_oom_alloc",
    "remote_worker_lost", "nccl_init_error", "rendezvous_failure",
}  # fmt: skip
# How many lines of progress after an error show that the work went on.
GOES_ON_AFTER_SETUP = 1
FEW = 3
GOES_ON = 5  # after an exception that was caught and printed
GOES_ON_AFTER_LINE = 10
GOES_ON_UNCAUGHT = 40  # after the end of a process: the lines may be a loop of runs, or buffered output of others


class Choice(NamedTuple):
    """The best candidate (None: nothing ended the process), and all candidates after which the work did not go on."""

    best: Candidate | None
    live: list[Candidate]


def choose(candidates: list[Candidate], tail: LogEnd, code_known: bool = True) -> Choice:
    """Choose the candidate that ended the process. Without an exit code, the end of the log decides whether one did."""
    live = [c for c in candidates if not _recovered(c, tail) and (code_known or not _came_through(c, tail))]
    serious = [c for c in live if not c.calm]
    others = {cause: _of_other_causes(cause, serious) for cause in MAY_FOLLOW & {c.cause for c in serious}}
    roots = [c for c in serious if c.role == "root" and not _follows(c, others.get(c.cause), tail)]
    reasons = [c for c in roots if not effect(c) and not _mere_setup(c, serious, tail)]
    best = (
        _first(reasons, tail)
        or _earliest(_effects(roots))
        or _strongest([c for c in serious if c.role == "symptom"])
        or _earliest(roots)
    )
    return Choice(best, live)


def _effects(roots: list[Candidate]) -> list[Candidate]:
    """The candidates that only show what happened. For a cancelled job, the signal before the message is dropped."""
    effects = [c for c in roots if effect(c)]
    cancelled = any(c.cause == "job_cancelled" for c in effects)
    return [c for c in effects if not (cancelled and c.cause == "sigterm_unattributed")]


def effect(root: Candidate) -> bool:
    """Whether it only shows what happened, not why."""
    return root.rank < WEAK or root.cause in UNEXPLAINED


def _recovered(candidate: Candidate, tail: LogEnd) -> bool:
    """Whether the work went on after it, or was completed in the end."""
    went_on = tail.progress(candidate.line, candidate.end)
    if candidate.cause in ENDERS:  # a requeued job goes on in the same log; Ray starts a killed worker again
        return candidate.end < tail.success and went_on >= GOES_ON_UNCAUGHT
    if candidate.end < tail.success and not candidate.uncaught and candidate.rank < CERTAIN:
        return bool(candidate.trace or went_on or candidate.cause in SETUP)
    return went_on >= _enough(candidate)


def _came_through(candidate: Candidate, tail: LogEnd) -> bool:
    """Whether the program went on to a good end, judging by the log alone (without an exit code)."""
    if candidate.cause in ENDERS or lines.of_launcher(candidate.line):
        return False
    after, continued = tail.progress(candidate.line, candidate.end), tail.continues(candidate.line, candidate.end)
    ends_well = candidate.end < tail.happy_end
    if candidate.uncaught:  # later lines may be buffered output, or printed by a script in any case
        return (continued and after >= GOES_ON) or (ends_well and not after and tail.ends_saved)
    if ends_well and (candidate.trace or after or tail.ordinary(candidate.end, tail.happy_end)):
        return True
    return after >= (FEW if candidate.trace or continued else GOES_ON)


def _enough(candidate: Candidate) -> int:
    """The number of lines of progress after which a candidate counts as recovered."""
    if candidate.trace:
        return GOES_ON_UNCAUGHT if candidate.uncaught else GOES_ON
    return GOES_ON_AFTER_SETUP if candidate.cause in SETUP else GOES_ON_AFTER_LINE


def _of_other_causes(cause: str, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates from which one with this cause may follow."""
    return [c for c in candidates if c.cause != cause and c.cause not in SETUP]


def _follows(root: Candidate, others: list[Candidate] | None, tail: LogEnd) -> bool:
    """Whether it only follows from another failure: an abort, a cancelled step, a store that is gone. `others` is None
    if its cause never does."""
    if others is None:
        return False
    earlier = [c for c in others if c.start <= root.start]
    if root.cause == "native_crash" and root.rank < SPECIFIC and lines.aborted(root.line):
        # Several ranks and threads write, so the reason of an abort may come after it.
        return any(_shows_failure(c, EXPLAINS) for c in earlier) or any(
            c.role == "root" and c.rank >= SPECIFIC and c.cause not in ENDERS | {"remote_worker_lost"} for c in others
        )
    if root.cause == "package_install_failure":  # follows from an extension that did not compile
        return any(c.cause == "extension_build_failure" for c in others)
    if root.cause == "container_failure":  # the hook that adds GPUs to the container reports the reason
        return any(c.cause in ("driver_mismatch", "gpu_unavailable") for c in others)
    if root.cause == "job_cancelled":
        if any(c.cause in ENDERS and _together(c, root, tail) for c in others):
            return True
        return _fails_before(root, tail) or any(
            _shows_failure(c, SHOWS_FAILURE) and c.cause != "sigterm_unattributed" for c in earlier
        )
    if root.cause == "host_oom_alloc" and not root.rule:  # a bare MemoryError; the library reports which memory it was
        return any(c.cause in ("gpu_oom", "gpu_oom_contention") and c.rank >= SPECIFIC for c in others)
    if root.cause == "remote_worker_lost":  # the worker's own crash comes before it
        return any(c.cause == "native_crash" for c in earlier)
    if root.cause == "nccl_init_error":  # "unhandled cuda error"; the next line or another rank shows which one
        return any(c.role == "root" and c.cause in BEHIND_NCCL for c in others)
    return root.cause == "rendezvous_failure" and any(c.cause == "nccl_timeout" for c in earlier)


def _together(one: Candidate, other: Candidate, tail: LogEnd) -> bool:
    """Whether no work was done between the two."""
    first, last = sorted((one, other), key=lambda c: c.start)
    return not tail.progress(first.line, first.end, last.start)


def _fails_before(cancelled: Candidate, tail: LogEnd) -> bool:
    """Whether a step (not the whole job) was cancelled right after an error of a task, which need not match a rule."""
    return b" STEP " in cancelled.line.body and tail.error_before(cancelled.line)


def _shows_failure(candidate: Candidate, rank: int) -> bool:
    """Whether it is a root, or a symptom of at least this rank."""
    return candidate.role == "root" or candidate.rank >= rank


def _mere_setup(root: Candidate, others: list[Candidate], tail: LogEnd) -> bool:
    """Whether a problem in the script came before the program started, which then failed for another reason."""
    if root.cause not in SETUP or root.uncaught:
        return False
    failures = [c for c in others if c.cause not in SETUP and (c.role == "root" or c.rank >= EXPLAINS)]
    later = _earliest([c for c in failures if c.start > root.end])
    if not later or later.cause in NEEDS_SETUP:
        return False
    return later.uncaught or tail.ordinary(root.end, later.start)


def _first(reasons: list[Candidate], tail: LogEnd) -> Candidate | None:
    """The first reason that no later one outweighs; within its incident, the most specific candidate."""
    best = _earliest([c for c in reasons if c.cause not in BY_PEERS or not _lost_its_peer(c, reasons)])
    if not best:
        return None
    while later := next((c for c in reasons if c.start > best.end and _outweighs(c, best, tail)), None):
        best = later
    return max((c for c in reasons if c.start == best.start), key=lambda c: (c.rank, _depth(c)))


def _lost_its_peer(reason: Candidate, reasons: list[Candidate]) -> bool:
    """Whether another rank failed for a reason of its own, so that this one only lost its peer."""
    others = (c for c in reasons if c.uncaught and c.cause not in BY_PEERS and c.start != reason.start)
    return any(c.rank >= SPECIFIC or c.line.rank != reason.line.rank for c in others)


def _outweighs(later: Candidate, earlier: Candidate, tail: LogEnd) -> bool:
    """Whether the later one ended the process although the earlier one came first."""
    if earlier.uncaught:
        return _went_past(earlier, later) or _is_explained(earlier, later, tail)
    if earlier.cause in ENDERS and later.cause not in ENDERS and lines.of_launcher(earlier.line):
        # With less progress than this, the program is still shutting down.
        return tail.progress(earlier.line, earlier.end, later.start) >= GOES_ON_AFTER_LINE
    if tail.progress(earlier.line, earlier.end, later.start):
        return True
    if earlier.cause in SETUP and later.cause in NEEDS_SETUP:
        return False
    if not later.uncaught and later.cause not in ENDERS:
        return False
    if not earlier.trace and earlier.rank >= CERTAIN:
        return False
    if earlier.trace and later.trace and (earlier.rank <= later.rank or later.rank >= SPECIFIC):
        return True  # the first was caught and printed, and the program went on to the second
    adjacent = not tail.ordinary(earlier.end, later.start)
    return not adjacent or bool(later.uncaught and not earlier.trace and earlier.rank < _needed(later))


def _went_past(earlier: Candidate, later: Candidate) -> bool:
    """Whether a main program printed the earlier exception, went on and ended with the later one."""
    if not (earlier.trace and later.trace) or earlier.line.rank != later.line.rank or later.cause in BY_PEERS:
        return False
    first, second = earlier.trace.main, later.trace.main
    return first is not None and second is not None and first.before(second)


def _is_explained(vague: Candidate, later: Candidate, tail: LogEnd) -> bool:
    """Whether an exception with an unspecific text is explained by the line right after it, or by another rank."""
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
