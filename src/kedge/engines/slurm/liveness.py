"""What Slurm says of a run."""

from __future__ import annotations

from kedge.runs.folder import Run
from kedge.runs.liveness import SchedulerWord, last_word


def word(run: Run) -> SchedulerWord:
    """What Slurm says of the job of a run."""
    return last_word(run.cluster)
