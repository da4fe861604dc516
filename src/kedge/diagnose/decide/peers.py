"""Missing peers: the ranks that a log names, or the only ones that do not report that they waited in vain."""

from __future__ import annotations

from kedge.diagnose.decide.candidates import Candidate
from kedge.diagnose.log.log_end import LogEnd
from kedge.diagnose.log.log_text import Log
from kedge.diagnose.regex import regex
from kedge.light.types import Iterable

# Causes behind which there may be a peer that hangs or has left.
WAITING = {
    "nccl_timeout", "rendezvous_failure", "peer_failure", "network_transient", "nccl_network", "nccl_init_error",
    "remote_worker_lost", "distributed_usage_error",
}  # fmt: skip
WINDOW = 256 << 10  # bytes at the end of a log that are searched
MAX_MISSING = 8
_LIST = rb"(\d{1,5}(?:(?:, ?| and | )\d{1,5})*)"
# Messages of PyTorch's monitoredBarrier and desync report, Horovod's stall inspector, JAX's and TensorFlow's
# coordination service, Gloo, and programs' own messages.
_NAMED = (
    rb"(?i)\branks? \[?" + _LIST + rb"\]? (?:(?:have|has|had|is|are|was|were) )?(?:already )?"
    rb"(?:failed to (?:pass|respond|reach|join|report)|the lagging|left\b|exited|gone\b|disconnected|died|dead\b|"
    rb"unresponsive|missing|did not (?:join|respond|report|reach)|(?:never|not) (?:joined|arrived|called|reached))|"
    rb"\b(?:missing|absent|lagging|unresponsive|dead|lost|departed|stalled) ranks?\b(?: are| is|:|=|\s|\[)*" + _LIST +
    rb"|\bstalled ranks:\s*\n(?:[^\n\d]*)" + _LIST + rb": ?\[|"
    rb"\b(?:did not reach|not reached|unhealthy|stopped sending heartbeats|timed out task names?|heartbeat timeout)"
    rb"[^\n]{0,200}?\n?[^\n]{0,100}?/task:(\d{1,5})|"
    rb"/task:(\d{1,5})[^\n]{0,60}\b(?:heartbeat timeout|unhealthy|did not reach)"
)  # fmt: skip
_OWN_RANK = rb"(?i)\brank[ =:]{0,2}(\d{1,5})\b"
_WORLD = rb"(?i)\b(?:world[_ ]?size|nranks|num_processes|num_nodes|n_?procs?)\W{1,4}(\d{1,5})\b"


def missing(log: Log, tail: LogEnd, live: Iterable[Candidate]) -> tuple[str, ...]:
    """The missing ranks, such as `rank3`; empty if the log does not show any."""
    text = log.text[-WINDOW:]
    named = [number.group() for found in regex(_NAMED).finditer(text) for group in found.groups() if group
             for number in regex(rb"\d+").finditer(group)]  # fmt: skip
    numbers = list(dict.fromkeys(map(int, named))) or _silent(text, tail, live)
    return tuple(f"rank{number}" for number in numbers[:MAX_MISSING])


def _silent(text: bytes, tail: LogEnd, live: Iterable[Candidate]) -> list[int]:
    """The ranks that do not report the failure, if most others do."""
    reports = {number for c in live if c.cause in WAITING for number in _rank_of(c)}
    known = {number for rank in tail.ranks if (number := _number(rank)) is not None}
    for found in regex(_WORLD).finditer(text):
        size = int(found.group(1))
        if max(reports, default=0) < size <= 2 * len(reports):
            known |= set(range(size))
    silent = sorted(known - reports)
    return silent if len(silent) < len(reports) else []


def _rank_of(candidate: Candidate) -> list[int]:
    """The rank that reports it: from the line's prefix, else the first one in its text."""
    prefixed = _number(candidate.line.rank)
    if prefixed is not None:
        return [prefixed]
    found = regex(_OWN_RANK).search(candidate.line.body[:200])
    return [int(found.group(1))] if found else []


def _number(rank: str) -> int | None:
    digits = rank.removeprefix("rank")
    return int(digits) if rank.startswith("rank") and digits.isdigit() and len(digits) <= 5 else None
