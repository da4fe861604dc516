"""The facts of an allocation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.cluster.scene import plan

from kedge.engines.slurm import clock
from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.in_allocation import allocation
from kedge.engines.slurm.in_allocation.allocation import SlurmAllocation
from kedge.errors import CannotRun


def test_the_environment_of_a_batch_step() -> None:
    found = allocation.current({"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "2", "SLURM_JOB_PARTITION": "main"})
    assert found == ("12", 2, "main", "")


def test_the_first_start_has_no_count() -> None:
    assert allocation.current({"SLURM_JOB_ID": "12"}) == ("12", 0, "", "")


def test_outside_of_an_allocation() -> None:
    with pytest.raises(CannotRun, match="not inside a Slurm allocation"):
        allocation.current({})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0:43", 43.0), ("2:00", 120.0), ("1:02:03", 3723.0), ("2-00:00:01", 172_801.0), ("UNLIMITED", None), ("", None)],
)
def test_times_as_squeue_writes_them(text: str, seconds: float | None) -> None:
    assert clock.seconds(text) == seconds


@pytest.mark.parametrize(
    ("squeue", "left"),
    [
        ("echo 1:00:00", 3600.0),
        ("echo UNLIMITED", None),
        ("echo 1:00:00; exit 1", None),
        ("echo soon", None),
        (None, None),
    ],
)
def test_the_time_that_is_left(squeue: str | None, left: float | None, tmp_path: Path) -> None:
    if squeue:
        program = tmp_path / "squeue"
        program.write_text(f"#!/bin/sh\n{squeue}\n")
        program.chmod(0o755)
    question = allocation.TimeQuestion(SlurmSite(str(tmp_path)), SlurmAllocation("12", 0, "main"))
    found = question.answer()
    if left is None:
        assert found is None
    else:
        assert found is not None
        assert left - 60 < found < left, "the time that squeue took is over"


def test_the_time_for_tasks_is_in_whole_seconds(tmp_path: Path) -> None:
    """People read it."""
    program = tmp_path / "squeue"
    program.write_text("#!/bin/sh\necho 10:00\n")
    program.chmod(0o755)

    def ask() -> allocation.TimeQuestion:
        return allocation.TimeQuestion(SlurmSite(str(tmp_path)), SlurmAllocation("12", 0, "main"))

    found = allocation.time_for_tasks(ask, ask(), plan("true"), asked=True)
    assert found
    assert found.limit.limit_sec.is_integer()
    assert 0 < found.limit.limit_sec < 600
