"""Why a job is pending, in plain words, with what can be done: the reasons that squeue shows.

Limits of accounts (Assoc…) and of a quality of service (QOS…, or Max…PerAccount) have many names that are made of the
same parts, such as `QOSMaxCpuPerUserLimit`, so these are read part by part. In place of a name Slurm may show a
sentence of its own.
Sources: "Job reason codes" of Slurm's documentation, and the names in its library, versions 20.11 to 24.11.
"""

from __future__ import annotations

import re

_JOB = "JOB"
_NODES = "sinfo -R shows the nodes that are out of service and why"
_LIMIT_SEC = "ask for less with --slurm time=TIME, or for another partition; sinfo -o '%P %l' shows the limits"
_RESERVATION = ("its reservation does not exist, or you may not use it", "scontrol show reservation lists them")
_ACCOUNT = ("its account may not use this partition", "stop it, and use another account or partition")
_QOS = ("its quality of service may not use this partition", "stop it, and use another qos or partition")
_OF_ACCOUNT = ("a limit of your account is reached", "wait until your other jobs end")
_OF_QOS = ("a limit of its quality of service is reached", "wait until other jobs end, or use another qos")
# Without a second part if there is nothing to do.
_REASONS: dict[str, tuple[str, ...]] = {
    "Priority": ("other jobs of this partition have a higher priority",),
    "Resources": ("the job waits for nodes, cores, memory or GPUs to become free",),
    "Dependency": ("the job waits for another job, which it depends on",),
    "DependencyNeverSatisfied": ("the job depends on another job that has failed, so it will never start", "stop it"),
    "BeginTime": ("its earliest start is in the future; after a requeue Slurm waits for two minutes",),
    "Cleaning": ("the job was requeued, and Slurm still cleans up after its last run",),
    "Prolog": ("its nodes are being prepared: the site's prolog runs",),
    "Licenses": ("the job waits for a license", "scontrol show licenses shows how many are free"),
    "Reservation": ("the job waits for its reservation to begin", "scontrol show reservation shows when"),
    "ReservationDeleted": ("its reservation does not exist any more", "stop it, and name another or none"),
    "InvalidReservation": _RESERVATION, "ReservationInvalid": _RESERVATION,
    "ReqNodeNotAvail": ("nodes that it needs are down, drained or reserved", _NODES),
    "NodeDown": ("a node that it needs is down", _NODES),
    "Nodes required for job are DOWN": (  # DRAINED or reserved for jobs in higher priority partitions
        "too many nodes that it could use are down, drained or kept for partitions with a higher priority", _NODES),
    "Constraints": ("no node can fulfil what it asks for now", _NODES),
    "MaxPoweredUpNodes": ("as many nodes as the site allows are powered up; it starts when some of them are free",),
    "PowerNotAvail": ("the cluster has too little power for it now",),
    "PowerReserved": ("the power that it needs is reserved",),
    "MpiPortsBusy": ("the nodes have no free ports for MPI; it starts when other jobs end",),
    "BadConstraints": ("no node can fulfil what it asks for, so it will never start",
                       "stop it, and ask for fewer resources or other features; sinfo -o '%P %c %m %G %f' shows what "
                       "nodes have"),
    "PartitionDown": ("its partition is down", "wait, or use another one; sinfo -s lists them"),
    "PartitionInactive": ("its partition accepts no jobs now", "wait, or use another one; sinfo -s lists them"),
    "PartitionNodeLimit": ("it needs more nodes than the partition allows, or nodes that are down",
                           "ask for fewer instances, or use another partition; scontrol show partition shows MaxNodes"),
    "PartitionConfig": ("its partition can never give it so many cores, so much memory or so many nodes",
                        "stop it, and ask for less or use another partition; scontrol show partition shows its limits"),
    "MaxMemPerLimit": ("it asks for more memory than its partition or the cluster allows for a core or a node",
                       "stop it, and ask for less memoryMB; scontrol show partition shows the limits"),
    "PartitionTimeLimit": ("it asks for more time than the partition allows, so it will never start", _LIMIT_SEC),
    "TimeLimit": ("it has reached its time limit",),
    "DeadLine": ("it cannot end before its deadline, so it will never start", "stop it"),
    "AccountNotAllowed": _ACCOUNT,
    "Job's account not known": _ACCOUNT,
    "Job's account not permitted to use this partition": _ACCOUNT,
    "AccountingPolicy": _OF_ACCOUNT,
    "InvalidAccount": ("its account does not exist, or you may not use it",
                       "sacctmgr show associations user=$USER lists yours"),
    "InvalidQOS": ("its quality of service does not exist, or you may not use it", "sacctmgr show qos lists them"),
    "QOSNotAllowed": _QOS,
    "Job's QOS not known": _QOS,
    "Job's QOS not permitted to use this partition": _QOS,
    "AssociationJobLimit": _OF_ACCOUNT, "AssociationResourceLimit": _OF_ACCOUNT, "AssociationTimeLimit": _OF_ACCOUNT,
    "QOSJobLimit": _OF_QOS, "QOSResourceLimit": _OF_QOS, "QOSTimeLimit": _OF_QOS,
    "JobHeldUser": ("it is held by its user", "scontrol release JOB lets it start"),
    "JobHeldAdmin": ("an administrator holds it", "ask the administrator of the cluster"),
    "JobHoldMaxRequeue": ("it was requeued too often, so Slurm holds it", "scontrol release JOB lets it start"),
    "JobLaunchFailure": ("it could not be started on its nodes", "ask the administrator of the cluster, or rerun it"),
    "launch failure limit exceeded requeued held": (
        "its start has failed several times, so Slurm holds it", "scontrol release JOB tries again"),
    "user env retrieval failed requeued held": (
        "Slurm could not read your environment on a node, so it has requeued the job and holds it",
        "scontrol release JOB tries again"),
    "job requeued in held state": ("it was requeued, and is held", "scontrol release JOB lets it start"),
    "launch failed requeued held": ("it could not be started on its nodes, so Slurm has requeued and holds it",
                                    "scontrol release JOB tries again"),
    "JobArrayTaskLimit": ("too many jobs of its array run at the same time",),
    "BurstBufferResources": ("the job waits for space in the burst buffer",),
    "BurstBufferStageIn": ("its data are copied to the burst buffer",),
    "BurstBufferOperation": ("an operation of the burst buffer has failed", "ask the administrator of the cluster"),
    "FedJobLock": ("another cluster of the federation is considering it",),
    "FrontEndDown": ("no front-end node of the cluster works", "ask the administrator of the cluster"),
    "NonZeroExitCode": ("it ended with an exit code that is not 0",),
    "OutOfMemory": ("it ran out of memory",),
    "RaisedSignal": ("it was killed by a signal",),
    "SchedDefer": ("this cluster starts no job right at submission; the scheduler considers it in its next round",),
    "SystemFailure": ("Slurm, the file system or the network has failed", "ask the administrator of the cluster"),
    "InactiveLimit": ("it was inactive for too long",),
    "MaxRequeue": ("it was requeued as often as this cluster allows",),
    "QOSUsageThreshold": ("its quality of service has used up its share", "wait, or use another qos"),
    "ResvDelayed": ("the job waits for a reservation",),
}  # fmt: skip
_SCOPES = {"Assoc": "your account", "QOS": "its quality of service", "": "its quality of service"}
_AMOUNTS = {
    "cpu": "cores", "mem": "memory", "memory": "memory", "node": "nodes", "nodes": "nodes", "gres": "GPUs",
    "job": "jobs", "jobs": "jobs", "submitjobs": "submitted jobs", "submitjob": "submitted jobs",
    "cputime": "core time", "wall": "time", "wallduration": "time", "billing": "billing units", "energy": "energy",
    "license": "licenses", "bb": "burst buffer", "unknown": "a resource",
}  # fmt: skip
_LIMIT = re.compile(r"(Assoc|QOS|)(Grp|Max|Min)(\w+?)(Per(?:User|Account|Job|Node)|NotSatisfied)?(?:Limit)?")
_TIME = re.compile(r"(\w+?)(RunMinutes|RunMins|MinutesRun|Minutes)")
_END = re.compile(r"[,(].*", re.DOTALL)


def text(reason: str, job: str = _JOB) -> str:
    """Slurm's reason for the pending job of this number, explained, with the reason itself. An unknown one is returned
    as it is."""
    name = reason.strip()
    if name in ("None", "(None)"):
        return "Slurm has not considered the job yet"
    name = name[1:-1] if name[:1] == "(" and name[-1:] == ")" else name
    term = _END.sub("", name).strip()
    known = _REASONS.get(name) or _REASONS.get(term) or _REASONS.get(name.replace("_", " ")) or _of_limit(term)
    return f"{'; '.join(known).replace(_JOB, job)} ({name})" if known else reason


def _of_limit(name: str) -> tuple[str, ...]:
    """A limit of an account or of a quality of service; empty if it is none."""
    found = _LIMIT.fullmatch(name)
    if not found or not (found[1] or found[4] in ("PerUser", "PerAccount")):
        return ()
    scope, kind, amount, per = found.groups()
    what, where = _amount(amount), _SCOPES[scope]
    if kind == "Min":
        return (f"{where} requires more {what} than it asks for", "stop it and ask for more, or use another qos")
    if kind == "Grp":
        return (f"all jobs of {where} have reached their common limit of {what}", "it starts when others end")
    if per in ("PerJob", "PerNode"):
        one = "one job" if per == "PerJob" else "one node"
        return (f"it asks for more {what} than {where} allows for {one}", "stop it and ask for less")
    whose = "the jobs of your account" if per == "PerAccount" else "your jobs"
    return (f"{whose} have reached the limit of {what} of {where}", "it starts when others of them end")


def _amount(name: str) -> str:
    if found := _TIME.fullmatch(name):
        return f"time with {_amount(found[1])}"
    return _AMOUNTS.get(name.lower(), name)
