"""Why an allocation ends, with a stand-in for scontrol that says what the real one says."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from kedge.engines.cluster.base import GoneKind
from kedge.engines.controller.allocation import NODE_FAILURE, PREEMPTED, Allocation
from kedge.engines.slurm import commands
from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.in_allocation import ends, node_question
from kedge.engines.slurm.in_allocation.allocation import SlurmAllocation

NOWHERE = SlurmSite("/nonexistent")
HERE = SlurmAllocation("22", 0, "main")
CANCELLED = (GoneKind.CANCELLED, "STEP 22.0 ON n1 CANCELLED AT 2026-11-23T12:05:07")
PREEMPTION = (GoneKind.PREEMPTED, "STEP 22.0 ON n1 CANCELLED AT 2026-11-23T12:05:07 DUE TO PREEMPTION")
REQUEUE = (GoneKind.PREEMPTED, "STEP 22.0 ON n1 CANCELLED AT 2026-11-23T12:05:07 DUE TO JOB REQUEUE")


@pytest.fixture
def site(tmp_path: Path) -> SlurmSite:
    return SlurmSite(str(tmp_path))


def says(site: SlurmSite, program: str, text: str, code: int = 0) -> None:
    path = Path(str(site.commands), program)
    path.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
    path.chmod(0o755)


def test_a_command_that_does_not_answer_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "sinfo"
    program.write_text("#!/bin/sh\necho 'sinfo: error: cannot stat file /x, retrying' >&2\nexec sleep 1000\n")
    program.chmod(0o755)
    with pytest.raises(commands.SlurmSilent, match=r"has not answered for 0.5 s \(cannot stat file /x, retrying\)"):
        commands.run(SlurmSite(str(tmp_path)), "sinfo", patience_sec=0.5)


def job(site: SlurmSite, state: str, reason: str = "None", restarts: int = 0) -> None:
    says(site, "scontrol", f"JobId=22 JobState={state} Reason={reason} Requeue=1 Restarts={restarts} BatchFlag=1")


def test_a_step_that_ends_alone(site: SlurmSite) -> None:
    job(site, "RUNNING")
    assert ends.find_out(site, HERE, [CANCELLED]) is None


def test_cancelled_from_outside(site: SlurmSite) -> None:
    job(site, "COMPLETING")
    says(site, "sacct", "CANCELLED by 0|0:0|n1|01:00:00")
    found = ends.find_out(site, HERE, [CANCELLED])
    assert found == (GoneKind.CANCELLED, CANCELLED[1], "root", False, False)


def test_nobody_knows_who_has_cancelled_it_without_accounting(site: SlurmSite) -> None:
    job(site, "COMPLETING")
    says(site, "sacct", "Slurm accounting storage is disabled", 1)
    assert ends.find_out(site, HERE, [CANCELLED]) == (GoneKind.CANCELLED, CANCELLED[1], "", False, False)


def test_the_time_limit(site: SlurmSite) -> None:
    job(site, "COMPLETING", "TimeLimit")
    found = ends.find_out(site, HERE, [])
    assert found
    assert found.kind == GoneKind.OUT_OF_TIME


def test_preempted_and_queued_again(site: SlurmSite) -> None:
    job(site, "COMPLETING", restarts=1)
    found = ends.find_out(site, HERE, [PREEMPTION])
    assert found
    assert found.requeued
    assert (found.cause, found.text) == (PREEMPTED, "preempted for another job")


def test_queued_again_on_request_has_no_cause(site: SlurmSite) -> None:
    job(site, "COMPLETING", restarts=1)
    found = ends.find_out(site, HERE, [REQUEUE])
    assert found
    assert found.requeued
    assert (found.cause, found.text) == (None, "the job was requeued (scontrol requeue)")


@pytest.mark.parametrize(
    ("since", "grace"), [("2026-11-23T13:48:06", True), ("2026-11-23T12:48:06", False), ("None", False)]
)
def test_preempted_after_some_grace(site: SlurmSite, since: str, grace: bool) -> None:
    times = f"StartTime=2026-11-23T13:48:01 EndTime=2026-11-23T13:48:21 PreemptTime={since}"
    says(site, "scontrol", f"JobId=22 JobState=RUNNING Reason=None Restarts=1 {times}")
    found = ends.find_out(site, HERE._replace(restarts=1), [CANCELLED])
    assert (found and (found.kind, found.grace)) == ((GoneKind.PREEMPTED, True) if grace else None)


def test_preempted_for_good(site: SlurmSite) -> None:
    job(site, "COMPLETING")
    found = ends.find_out(site, HERE, [PREEMPTION])
    assert found
    assert (found.kind, found.requeued) == (GoneKind.PREEMPTED, False)


def test_a_silent_controller_of_slurm(site: SlurmSite) -> None:
    says(site, "scontrol", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", 1)
    assert ends.find_out(site, HERE, []) is None
    found = ends.find_out(site, HERE, [PREEMPTION])
    assert found
    assert found.kind == GoneKind.PREEMPTED


def test_the_next_allocation_knows_how_the_last_one_ended() -> None:
    again = HERE._replace(restarts=2)
    left = {"number": 1, "cause": PREEMPTED, "text": "for another job"}
    assert ends.before(NOWHERE, again, left, {}) == Allocation(2, PREEMPTED, "for another job")
    assert ends.before(NOWHERE, again, left | {"number": 0}, {}).cause is None
    assert ends.before(NOWHERE, again, left | {"cause": "anything"}, {}).cause is None
    assert ends.before(NOWHERE, HERE, left, {}) == Allocation()


@pytest.mark.parametrize(
    ("state", "seen", "cause"),
    [("DOWN+NOT_RESPONDING", 0, NODE_FAILURE), ("IDLE", -60, NODE_FAILURE), ("IDLE", 60, None)],
)
def test_the_node_of_the_controller_before(site: SlurmSite, state: str, seen: float, cause: str | None) -> None:
    booted = datetime(2026, 11, 23, 9, 52, 53)
    says(site, "scontrol", f"NodeName=n1 State={state} BootTime={booted.isoformat()}")
    left, heartbeat = {"number": 1, "node": "n1"}, {"time": booted.timestamp() + seen}
    found = ends.before(site, HERE._replace(restarts=2), left, heartbeat)
    assert found.cause == cause
    assert ("the node n1" in found.text) == (cause is not None)
    assert ends.before(site, HERE._replace(restarts=3), left, heartbeat).cause is None


def test_which_nodes_are_down() -> None:
    states = ("MIXED", "DOWN+NOT_RESPONDING", "DOWN*+DRAIN", "IDLE+DRAIN", "MIXED+NOT_RESPONDING", "IDLE+POWERED_DOWN")
    lines = [f"NodeName=n{index} Arch=x State={state} BootTime=None" for index, state in enumerate(states)]
    found = node_question.read("\n".join(lines))
    assert [name for name, facts in found.items() if facts.is_down] == ["n1", "n2", "n5"]


def test_when_a_node_was_started() -> None:
    found = node_question.read(
        "NodeName=n1 State=IDLE BootTime=2026-11-23T09:52:53 SlurmdStartTime=2026-11-23T13:48:01"
    )
    assert found == {"n1": (False, datetime(2026, 11, 23, 9, 52, 53).timestamp())}
