"""Ends that a job did not record itself, from what Slurm's commands print about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.engines.slurm import job_ends, job_table
from kedge.engines.slurm.commands import SlurmSilent, SlurmSite
from kedge.engines.slurm.job_ends import SlurmJobEnd
from kedge.states import State

# sacct of Slurm 22.05 (--allocations --parsable2): seen with real jobs, and for the states which a small
# cluster never has in the format of its manual.
ROWS = {
    "CANCELLED by 0|0:0|n1|01:00:00": (
        State.STOPPED,
        -210,
        "cancelled outside of kedge by root (Slurm job 7, node n1)",
    ),
    "CANCELLED by 4294967290|0:0|None assigned|1:00": (State.STOPPED, -210, "by the user 4294967290 (Slurm job 7)"),
    "TIMEOUT|0:0|n1|00:01:00": (State.FAILED, -1004, "the time limit of the allocation (00:01:00) has passed"),
    "DEADLINE|0:0|None assigned|00:01:00": (State.FAILED, -1004, "ask for more time with --slurm time=TIME"),
    "NODE_FAIL|1:0|n1|01:00:00": (State.FAILED, -1001, "the node of the job's controller has failed"),
    "BOOT_FAIL|0:0|n[1-2]|01:00:00": (State.FAILED, -1001, "node n[1-2]"),
    "OUT_OF_MEMORY|0:125|n1|01:00:00": (State.FAILED, -1200, "Slurm ended the job because it ran out of memory"),
    "PREEMPTED|0:0|n1|01:00:00": (State.FAILED, -1003, "preempted by Slurm for another job"),
    "REVOKED|0:0|None assigned|01:00:00": (State.FAILED, None, "another cluster runs the job"),
    "FAILED|0:9|n1|00:01:00": (State.FAILED, None, "its controller was ended by signal 9 and recorded no end"),
    "FAILED|3:0|n1|00:01:00": (State.FAILED, None, "its controller ended with exit code 3"),
}


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
    state, code, text = ROWS[row]
    assert (end.state, end.code) == (state, code)
    assert text in end.text


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "REQUEUED", "SUSPENDED", "COMPLETING", "RESIZING"])
def test_a_job_that_has_not_ended(site: SlurmSite, tmp_path: Path, state: str) -> None:
    says(tmp_path, "sacct", f"{state}|0:0|n1|01:00:00")
    assert job_ends.asked(site, "7") is None


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
    assert "Slurm does not know the job any more" in job_ends.recorded(found, "7").text


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
