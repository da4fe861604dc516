"""What somebody does to a job of Slurm while it runs, and what does not end it."""

from __future__ import annotations

from kedge.contract import EVENTS_FILE
from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster
from .kedge_on_slurm import OnSlurm
from .test_jobs import WAITS


def test_time_in_which_a_job_is_suspended_and_more_time_do_not_count(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    """Both have 30 s for their tasks, and later more."""
    options = ("-d", "--slurm", "time=1m")
    suspended, longer = (kedge("run", *options, kedge.job(WAITS, name=name)).stdout.strip() for name in ("s", "l"))
    for run in (suspended, longer):
        kedge.wait_for_line(run, "ready")
    slurm.run("scontrol", "suspend", kedge.number(suspended))
    slurm.run("scontrol", "update", f"jobid={kedge.number(longer)}", "timelimit=30")
    said = kedge("stop", suspended, code=4).stderr
    assert "Slurm has suspended it; its tasks are paused until Slurm resumes it" in said
    assert f"end it at once with scancel {kedge.number(suspended)}" in said
    wait_until(lambda: "Slurm has suspended it" in kedge("show", suspended).stdout, DEADLINE, "the word of Slurm")
    wait_until(lambda: moved(kedge, longer), DEADLINE, "the longer time")
    slurm.run("scontrol", "resume", kedge.number(suspended))
    wait_until(lambda: moved(kedge, suspended), DEADLINE, "its new end")
    for run in (suspended, longer):
        kedge.let_go(run)
        kedge("wait", run)
    assert not {event["event"] for event in kedge.events()} & {"task-unreachable", "time-limit-reached"}
    assert kedge.leftovers() == []


def moved(kedge: OnSlurm, run: str) -> bool:
    """Whether the run says that its allocation lasts longer than it had thought."""
    return "the end of the allocation has changed" in (kedge.jobs / run / EVENTS_FILE).read_text()
