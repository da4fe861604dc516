"""Why a job is pending, in words."""

from __future__ import annotations

import pytest

from kedge.engines.slurm import job_states, pending_reasons


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("Resources", "waits for nodes, cores, memory or GPUs to become free (Resources)"),
        ("(Priority)", "other jobs of this partition have a higher priority (Priority)"),
        (
            "PartitionTimeLimit",
            "so it will never start; ask for less with --slurm",
        ),
        ("BeginTime", "its earliest start is in the future"),
        ("Dependency", "waits for another job"),
        ("JobHeldUser", "it is held by its user; scontrol release JOB lets it start"),
        ("JobHeldAdmin", "an administrator holds it"),
        ("Licenses", "waits for a license; scontrol show licenses"),
        ("Reservation", "waits for its reservation to begin"),
        ("NodeDown", "a node that it needs is down"),
        ("BadConstraints", "no node can fulfil what it asks for, so it will never start"),
        ("InvalidAccount", "its account does not exist"),
        ("InvalidQOS", "its quality of service does not exist"),
        ("launch failed requeued held", "Slurm has requeued and holds it; scontrol release JOB tries again"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
            "down, drained or reserved; sinfo -R shows the nodes that are out of service and why "
            "(ReqNodeNotAvail, UnavailableNodes:n[1-2])",
        ),
        ("(ReqNodeNotAvail(Unavailable:n1))", "reserved; sinfo -R"),
        (
            "QOSMaxJobsPerUserLimit",
            "your jobs have reached the limit of jobs of its quality of service; it starts when",
        ),
        ("QOSMaxCpuPerUserLimit", "the limit of cores of its quality of service"),
        ("QOSMaxGRESPerUser", "the limit of GPUs of its quality of service"),
        ("QOSMaxSubmitJobPerUserLimit", "the limit of submitted jobs of its quality of service"),
        ("QOSMaxWallDurationPerJobLimit", "it asks for more time than its quality of service allows for one job"),
        ("QOSMinGRES", "its quality of service requires more GPUs than it asks for"),
        ("QOSGrpGRES", "all jobs of its quality of service have reached their common limit of GPUs"),
        ("AssocGrpCPUMinutesLimit", "all jobs of your account have reached their common limit of time with cores"),
        (
            "AssocGrpGRESRunMinutes",
            "limit of time with GPUs; it starts when others end (AssocGrpGRESRunMinutes)",
        ),
        ("AssocGrpMemLimit", "common limit of memory"),
        ("AssocMaxJobsLimit", "your jobs have reached the limit of jobs of your account"),
        ("QOSGrpSomethingNew", "common limit of SomethingNew"),
        ("QOSMinCpuNotSatisfied", "its quality of service requires more cores than it asks for"),
        ("MaxJobsPerAccount", "the jobs of your account have reached the limit of jobs of its quality of service"),
        ("MaxCpuRunMinsPerUser", "your jobs have reached the limit of time with cores of its quality of service"),
        ("AssocMaxCpuPerNode", "it asks for more cores than your account allows for one node; stop it and ask for"),
        ("AssocGrpUnknown", "common limit of a resource;"),
        ("QOSTimeLimit", "a limit of its quality of service is reached"),
        ("PartitionConfig", "its partition can never give it so many cores, so much memory or so many nodes; stop"),
        ("MaxMemPerLimit", "more memory than its partition or the cluster allows for a core or a node; stop it"),
        ("ReservationInvalid", "its reservation does not exist"),
        ("Constraints", "no node can fulfil what it asks for now; sinfo -R"),
        ("MaxPoweredUpNodes", "as many nodes as the site allows are powered up"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "too many nodes that it could use are down, drained or kept for partitions with a higher priority; sinfo",
        ),
        (
            "Job's account not known, so it can't use this partition (acc allows vision)",
            "its account may not use this partition; stop it, and use another account or partition (Job's account not",
        ),
        ("Job's QOS not permitted to use this partition (gpu allows a,b not c)", "its quality of service may not use"),
        ("launch_failed_requeued_held", "scontrol release JOB tries again (launch_failed_requeued_held)"),
    ],
)
def test_a_reason_in_words(reason: str, part: str) -> None:
    assert part in pending_reasons.text(reason)


def test_what_to_type_names_the_job() -> None:
    assert "; scontrol release 41 lets it start" in pending_reasons.text("JobHeldUser", "41")
    assert job_states.words("REQUEUE_HOLD", "41").endswith("; scontrol release 41 lets it start")


@pytest.mark.parametrize("reason", ["", "SomethingNew", "(null)", "QOS", "Assoc", "MaxSomething", "PerUser"])
def test_an_unknown_reason_is_shown_as_it_is(reason: str) -> None:
    assert pending_reasons.text(reason) == reason
