"""What Kueue says about a Workload."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.engines.kubernetes.pods import kueue_workloads


def workload(status: dict[str, Any] | None = None, *, active: bool = True, **said: tuple[str, str]) -> dict[str, Any]:
    """A Workload with conditions, each with its status and message."""
    conditions = [{"type": kind, "status": is_true, "reason": "R", "message": m} for kind, (is_true, m) in said.items()]
    return {"spec": {"active": active}, "status": {"conditions": conditions, **(status or {})}}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, ""),
        ({}, ""),
        (workload(QuotaReserved=("False", "insufficient unused quota\nfor cpu")), "insufficient unused quota for cpu"),
        (workload(QuotaReserved=("False", "")), "R"),
        (workload(Evicted=("True", "Preempted to accommodate another")), "Preempted to accommodate another"),
        (workload(QuotaReserved=("False", "The workload is deactivated"), active=False),
         "it was deactivated; The workload is deactivated"),
        (workload(QuotaReserved=("True", "ok")), "it has quota, and is about to be admitted"),
        (workload({"admissionChecks": [{"name": "a", "state": "Ready"},
                                       {"name": "nodes", "state": "Pending", "message": "3 nodes start"}]},
                  QuotaReserved=("True", "ok")), "it has quota, and waits for the site's check nodes: 3 nodes start"),
    ],
)  # fmt: skip
def test_why_it_waits(found: dict[str, Any] | None, words: str) -> None:
    assert kueue_workloads.why_waiting(found) == words
