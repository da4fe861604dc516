"""Who was missing when others waited in vain, as far as one log tells."""

from __future__ import annotations

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.diagnose.rules.packaged import packaged

RULES = packaged()
WATCHDOG = (
    "[E1218 ProcessGroupNCCL.cpp:629] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n"
)
TRACE = 'Traceback (most recent call last):\n  File "/work/train.py", line 8, in <module>\n    run()\n{}\n'
CLOSED = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:123"


def look(log: str) -> Diagnosis:
    return classify(Evidence((("log", log.encode()),), 1), RULES)


def of_ranks(*ranks: int) -> str:
    return "".join(f"[rank{rank}]: {WATCHDOG.format(rank)}" for rank in ranks)


NAMED = {
    "monitored barrier": (
        TRACE.format("RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 30000 ms"),
        "3",
    ),
    "several": (TRACE.format("RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30 ms"), "1 3"),
    "no response": (TRACE.format("RuntimeError: monitoredBarrier: ranks 3 failed to respond"), "3"),
    "desync report": (
        WATCHDOG.format(0) + "\t - To our best knowledge, ranks [3] are the lagging ranks that caused this timeout.\n",
        "3",
    ),
    "stall inspector": (
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
        "for remainder of ranks for more than 60 seconds.\nMissing ranks:\n3: [allreduce.x, allreduce.y]\n",
        "3",
    ),
    "left early": ("rank 2 left early, exit code 0\n" + TRACE.format(CLOSED), "2"),
    "barrier of JAX": (
        TRACE.format(
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Timed out task names:\n"
            "/job:jax_worker/replica:0/task:3"
        ),
        "3",
    ),
    "all others report": ("[rank3]: loading data\n" + of_ranks(0, 1, 2), "3"),
    "all others of a known number report": ("world_size=4\n" + of_ranks(0, 1, 3), "2"),
    "ranks inside the lines": ("WORLD_SIZE=3\n" + WATCHDOG.format(0) + WATCHDOG.format(2), "1"),
}


@pytest.mark.parametrize(("log", "ranks"), NAMED.values(), ids=NAMED)
def test_the_missing_are_named(log: str, ranks: str) -> None:
    assert look(log).missing == tuple(f"rank{rank}" for rank in ranks.split())


@pytest.mark.parametrize(
    "log",
    [
        of_ranks(0, 1, 2),
        "world_size=64\n" + of_ranks(0, 1),
        "[rank1]: loading\n[rank2]: loading\n" + of_ranks(0),
        "rank 3 left 4 files\n" + TRACE.format("KeyError: 'x'"),
    ],
    ids=["all report", "few report", "one reports", "another failure"],
)
def test_no_peer_is_named_without_evidence(log: str) -> None:
    assert look(log).missing == ()
