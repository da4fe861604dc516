"""The diagnosis of a task, or of a job, that was stopped because a time limit has passed."""

from __future__ import annotations

from kedge.contract import (
    NOT_RENEWED,
    SITE_TIME_LIMIT,
    TIME_LIMITS_OF_ALLOCATION,
    TIME_LIMITS_OF_RUN,
    TaskTimeLimit,
    duration_text,
)
from kedge.diagnose.model import PERMANENT, SURE, TIME_LIMIT, Diagnosis

_UNKNOWN = "unknown"
_HUNG = "If it made progress, raise the limit; if it hung, look at its last lines. jobRetryCount allows another try."
_SAVE = "Save checkpoints in $KEDGE_JOB_DIR, also in a beforeStop hook, and continue from them in the next run."


def of_time_limit(limit: TaskTimeLimit, exit_code: int | None = None) -> Diagnosis:
    """The diagnosis. Only the limit of a single attempt leaves it open whether another try helps: a hang may not come
    again, but a run, or a task, whose time is over has none for another try."""
    of_attempt = limit.left_sec is None
    of_job = limit.key in TIME_LIMITS_OF_RUN
    whose = "The job" if of_job else "An attempt of the task" if of_attempt else "The task"
    meaning = (
        f"{whose} took longer than its time limit of {duration_text(limit.limit_sec)} ({limit.key}); kedge stopped it."
    )
    if limit.key in TIME_LIMITS_OF_ALLOCATION:
        meaning = (
            f"The job's allocation was nearly over ({limit.key}): after {duration_text(limit.limit_sec)} kedge stopped "
            "the tasks, so that they could end in order before Slurm kills them."
        )
    return Diagnosis(
        TIME_LIMIT,
        _UNKNOWN if of_attempt else PERMANENT,
        SURE,
        "resources",
        meaning,
        (_HUNG if of_attempt else _raise(limit.key), _SAVE),
        exit_code=exit_code,
    )


def _raise(key: str) -> str:
    if key == SITE_TIME_LIMIT:
        return "The site ends every job after this time (kedge config limits); only its administrator can change that."
    if key == NOT_RENEWED:
        return (
            "Ask the site's administrator to allow that jobs are requeued (a note has Slurm's own words), or "
            "ask for a longer allocation: --slurm time=TIME, or extras.slurm.time in the job file."
        )
    if key in TIME_LIMITS_OF_ALLOCATION:
        return (
            "Ask for a longer allocation: --slurm time=TIME, or extras.slurm.time in the job file. sinfo shows what "
            "each partition allows. With --slurm requeue=true the job goes on in another allocation."
        )
    return f"Raise {key} in the job file."
