"""Ends that a job did not record itself, from what Slurm's commands print about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.engines.slurm import job_ends, job_states, job_table
from kedge.engines.slurm.commands import SlurmSilent, SlurmSite
from kedge.engines.slurm.job_ends import SlurmJobEnd
from kedge.states import State

_FAILED, _AGAIN = State.FAILED, "with --slurm requeue=true, Slurm gives such a job another allocation"
# sacct of Slurm 22.05 (--allocations --parsable2): seen with real jobs, and for the states which a small cluster never
# has in the format of its manual. The state and the code of the run, and what is said, with what to do.
ROWS = {
    "CANCELLED by 0|0:0|n1|01:00:00": (State.STOPPED, -210, "outside of kedge by root (Slurm job 7, node n1)", ""),
    "CANCELLED by 4294967290|0:0|None assigned|1:00": (State.STOPPED, -210, "by the user 4294967290 (Slurm job 7)", ""),
    "TIMEOUT|0:0|n1|00:01:00": (
        _FAILED, -1004, "limit of the allocation (00:01:00) has passed", "more time with --slurm time=TIME",
    ),
    "DEADLINE|0:0|None assigned|00:01:00": (_FAILED, -1004, "could not end before its deadline", "a later deadline"),
    "NODE_FAIL|1:0|n1|01:00:00": (_FAILED, -1001, "the node of the job's controller has failed", _AGAIN),
    "BOOT_FAIL|0:0|n[1-2]|01:00:00": (_FAILED, -1001, "could not be started (Slurm job 7, node n[1-2])", _AGAIN),
    "LAUNCH_FAILED|0:0|n1|01:00:00": (_FAILED, -1001, "its nodes could not be started", _AGAIN),
    "RECONFIG_FAIL|0:0|n1|01:00:00": (_FAILED, -1001, "its nodes could not be started", _AGAIN),
    "OUT_OF_MEMORY|0:125|n1|01:00:00": (_FAILED, -1200, "it ran out of memory", "ask for more memory (memoryMB)"),
    "PREEMPTED|0:0|n1|01:00:00": (_FAILED, -1003, "preempted by Slurm for another job", _AGAIN),
    "REVOKED|0:0|None assigned|01:00:00": (_FAILED, None, "another cluster of the federation took it", "batch.log"),
    "COMPLETED|0:0|n1|00:01:00": (_FAILED, None, "its controller ended without recording its end", "batch.log"),
    "FAILED|0:9|n1|00:01:00": (_FAILED, None, "was ended by signal 9 without recording its end", "batch.log"),
    "FAILED|3:0|n1|00:01:00": (_FAILED, None, "its controller ended with exit code 3", "batch.log"),
}  # fmt: skip
# Of job_state_string in Slurm's source: base states, then flags. The phase of a run whose job squeue lists like this.
PENDING = {"PENDING", "EXPEDITING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
RUNNING = {
    "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "POWER_UP_NODE", "RESIZING", "REVOKED", "SIGNALING",
    "STAGE_OUT", "STOPPED", "UPDATE_DB",
}  # fmt: skip


def test_every_state_of_slurm_has_a_row() -> None:
    ends = {row.partition("|")[0].partition(" ")[0] for row in ROWS}
    assert ends - {"REVOKED"} | PENDING | RUNNING == job_states.STATES.keys()
    for name in job_states.STATES:
        phase = "pending" if name in PENDING else "running" if name in RUNNING else "gone"
        assert job_states.phase(name) == phase, name
    assert job_states.phase("A_NEW_ONE") == "running"


def test_a_job_without_its_allocation() -> None:
    keeps = {name for name in job_states.STATES if job_states.has_allocation(name)}
    assert RUNNING - keeps == {"COMPLETING", "STAGE_OUT", "REVOKED"}
    assert keeps < RUNNING
    assert job_states.has_allocation("A_NEW_ONE")
    assert not job_states.has_allocation("")


@pytest.fixture
def site(tmp_path: Path) -> SlurmSite:
    says(tmp_path, "scontrol", "slurm_load_jobs error: Invalid job id specified", 1)
    return SlurmSite(str(tmp_path))


def says(folder: Path, program: str, text: str, code: int = 0) -> None:
    (folder / program).write_text(f"#!/bin/sh\necho '{text}' {'>&2' if code else ''}\nexit {code}\n")
    (folder / program).chmod(0o755)


@pytest.mark.parametrize("row", ROWS)
def test_a_job_that_only_accounting_knows(site: SlurmSite, tmp_path: Path, row: str) -> None:
    says(tmp_path, "sacct", row)
    found = job_ends.asked(site, "7")
    assert found
    end = job_ends.recorded(found, "7")
    state, code, text, advice = ROWS[row]
    assert (end.state, end.code) == (state, code)
    assert text in end.text
    assert advice in end.text


@pytest.mark.parametrize("state", sorted(PENDING | RUNNING - {"REVOKED"}))
def test_a_job_that_has_not_ended(site: SlurmSite, tmp_path: Path, state: str) -> None:
    says(tmp_path, "sacct", f"{state}|0:0|n1|01:00:00")
    says(tmp_path, "scontrol", f"JobId=7 JobName=j JobState={state} Reason=None")
    assert job_ends.asked(site, "7") is None
    says(tmp_path, "scontrol", "slurm_load_jobs error: Access/permission denied", 1)
    assert job_ends.asked(site, "7") is None


def test_an_end_that_accounting_has_missed(site: SlurmSite, tmp_path: Path) -> None:
    """What Slurm calls a runaway job would run for ever. slurmctld knows no such job."""
    says(tmp_path, "sacct", "RUNNING|0:0|n1|01:00:00")
    assert job_ends.asked(site, "7") == SlurmJobEnd()


def test_an_end_that_accounting_does_not_know_yet(site: SlurmSite, tmp_path: Path) -> None:
    says(tmp_path, "sacct", "RUNNING|0:0|n1|01:00:00")
    says(tmp_path, "scontrol", "JobId=7 JobName=j JobState=TIMEOUT Reason=TimeLimit BatchHost=n1")
    found = job_ends.asked(site, "7")
    assert found
    assert found.state == "TIMEOUT"


@pytest.mark.parametrize("accounting", [True, False])
def test_a_heterogeneous_job(site: SlurmSite, tmp_path: Path, accounting: bool) -> None:
    """As Slurm 22.05 has shown one that had lost n2, which was the node of its second component."""

    def said(state: str) -> str:
        lines = [f"{state}|0:9|{node}|01:00:00" for node in ("n1", "n2")]
        says(tmp_path, "sacct", "\n".join(lines) if accounting else "disabled", int(not accounting))
        facts = (f"JobId={8 + n} HetJobId=8 JobState={state} ExitCode=0:9 NodeList=n{1 + n}" for n in range(2))
        says(tmp_path, "scontrol", "\n".join(facts))
        found = job_ends.asked(site, "8")
        assert found
        return job_ends.recorded(found, "8").text

    assert said("NODE_FAIL").startswith(
        "a node of the job has failed (Slurm job 8, node n1,n2); with --slurm requeue=true"
    )
    assert "signal 9 without recording its end (Slurm job 8, node n1)" in said("FAILED")


def test_without_accounting_slurmctld_is_asked(site: SlurmSite, tmp_path: Path) -> None:
    says(tmp_path, "sacct", "Slurm accounting storage is disabled", 1)
    says(
        tmp_path, "scontrol", "JobId=7 JobName=j JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 BatchHost=n1"
    )
    assert job_ends.asked(site, "7") == SlurmJobEnd("OUT_OF_MEMORY", "", "n1", "0:125", "", "OutOfMemory")


def test_nobody_knows_the_job(site: SlurmSite, tmp_path: Path) -> None:
    says(tmp_path, "sacct", "Slurm accounting storage is disabled", 1)
    found = job_ends.asked(site, "7")
    assert found == SlurmJobEnd()
    assert "Slurm no longer knows the job" in job_ends.recorded(found, "7").text


def test_silence_is_no_end(site: SlurmSite, tmp_path: Path) -> None:
    says(tmp_path, "sacct", "sacct: error: Unable to contact slurm controller (connect failure)", 1)
    with pytest.raises(SlurmSilent):
        job_ends.asked(site, "7")


def test_a_stop_that_was_asked_for_is_no_cancellation_from_outside() -> None:
    end = job_ends.recorded(SlurmJobEnd("CANCELLED", "root"), "7", "ada")
    assert (end.state, end.text) == (State.STOPPED, "stopped by ada")


def test_jobs_as_squeue_lists_them() -> None:
    """As Slurm 22.05 has printed them."""
    pending, held, suspended = job_table.parse(
        "4|4|PENDING|JobHeldUser|N/A|n/a|kedge a\n"
        "5|5|PENDING|job requeued in held state|2026-11-23T14:26:18|n/a|(null)\n"
        "7|7|SUSPENDED|None|2026-11-23T14:26:02|n1|(null)\n"
    )
    assert (pending.is_pending, pending.start, pending.node) == (True, "", "")
    assert (held.is_pending, held.reason) == (True, "job requeued in held state")
    assert not suspended.is_pending
    assert not suspended.has_ended
