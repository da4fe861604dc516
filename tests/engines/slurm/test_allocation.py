"""The facts of an allocation."""

from __future__ import annotations

import pytest

from kedge.engines.slurm.in_allocation import allocation
from kedge.errors import CannotRun


def test_the_environment_of_a_batch_step() -> None:
    found = allocation.current({"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "2", "SLURM_JOB_PARTITION": "main"})
    assert found == ("12", 2, "main")


def test_the_first_start_has_no_count() -> None:
    assert allocation.current({"SLURM_JOB_ID": "12"}) == ("12", 0, "")


def test_outside_of_an_allocation() -> None:
    with pytest.raises(CannotRun, match="not in an allocation of Slurm"):
        allocation.current({})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0:43", 43.0), ("2:00", 120.0), ("1:02:03", 3723.0), ("2-00:00:01", 172_801.0), ("UNLIMITED", None), ("", None)],
)
def test_times_as_squeue_writes_them(text: str, seconds: float | None) -> None:
    assert allocation.seconds(text) == seconds
