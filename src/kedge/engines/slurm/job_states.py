"""The states that Slurm shows for a job, and what they mean: those of job_state_string in its source, up to 25.05.

A job has a base state and may have a flag; squeue and scontrol then show the flag.
"""

from __future__ import annotations

from kedge.runs.liveness import JobPhase

SUSPENDED = "SUSPENDED"
_HELD = "scontrol release JOB lets it start"

# The phase, and what to tell a user who sees that nothing happens.
STATES: dict[str, tuple[JobPhase, str]] = {
    "PENDING": (JobPhase.PENDING, ""),
    "RUNNING": (JobPhase.RUNNING, ""),
    SUSPENDED: (
        JobPhase.RUNNING,
        "Slurm has suspended it; its tasks are paused until Slurm resumes it",
    ),
    "BOOT_FAIL": (JobPhase.GONE, ""),
    "CANCELLED": (JobPhase.GONE, ""),
    "COMPLETED": (JobPhase.GONE, ""),
    "DEADLINE": (JobPhase.GONE, ""),
    "FAILED": (JobPhase.GONE, ""),
    "NODE_FAIL": (JobPhase.GONE, ""),
    "OUT_OF_MEMORY": (JobPhase.GONE, ""),
    "PREEMPTED": (JobPhase.GONE, ""),
    "TIMEOUT": (JobPhase.GONE, ""),
    # The flags.
    "COMPLETING": (JobPhase.RUNNING, ""),  # or it has ended, and Slurm cleans up
    "CONFIGURING": (JobPhase.RUNNING, "its nodes are being started"),
    "EXPEDITING": (JobPhase.PENDING, "it is started again before other jobs"),
    "LAUNCH_FAILED": (JobPhase.GONE, ""),
    "POWER_UP_NODE": (JobPhase.RUNNING, "its nodes are being started"),
    "RECONFIG_FAIL": (JobPhase.GONE, ""),
    "REQUEUED": (JobPhase.PENDING, ""),
    "REQUEUE_FED": (JobPhase.PENDING, "it is queued again in another cluster of the federation"),
    "REQUEUE_HOLD": (JobPhase.PENDING, f"it is queued again, and held; {_HELD}"),
    "RESIZING": (JobPhase.RUNNING, ""),
    "RESV_DEL_HOLD": (JobPhase.PENDING, "its reservation was deleted, so it is held"),
    # Listed for as long as the other cluster has the job; see job_ends for a job that is not listed any more.
    "REVOKED": (JobPhase.RUNNING, "another cluster of the federation has taken it"),
    "SIGNALING": (JobPhase.RUNNING, ""),
    "SPECIAL_EXIT": (JobPhase.PENDING, f"it is queued again with the state SPECIAL_EXIT, and held; {_HELD}"),
    "STAGE_OUT": (JobPhase.RUNNING, "it has ended, and its data are copied out of the burst buffer"),
    "STOPPED": (JobPhase.RUNNING, "somebody has sent SIGSTOP to its tasks; scancel --signal=CONT JOB resumes them"),
    "UPDATE_DB": (JobPhase.RUNNING, ""),
}  # fmt: skip
_OVER = frozenset({"COMPLETING", "STAGE_OUT", "REVOKED"})  # not gone, but the allocation is


def phase(state: str) -> JobPhase:
    """The phase of a job in this state. An unknown state counts as running, so that it never ends a job."""
    return STATES[state][0] if state in STATES else JobPhase.RUNNING


def words(state: str, job: str) -> str:
    """What the state of the job of this number means, if a user should know that; otherwise empty."""
    return STATES[state][1].replace("JOB", job) if state in STATES else ""


def has_allocation(state: str) -> bool:
    """Whether a job in this state has its allocation, and keeps it."""
    return bool(state) and state not in _OVER and phase(state) == JobPhase.RUNNING
