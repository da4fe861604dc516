"""Why a job is pending, in plain words, with what can be done: the reasons that squeue shows.

Limits of accounts (Assoc…) and of a quality of service (QOS…) have many names that are made of the same parts, such as
`QOSMaxCpuPerUserLimit`, so these are read part by part.
Source of the names: "Job reason codes" of Slurm's documentation.
"""

from __future__ import annotations

import re

_NODES = "sinfo -R shows the nodes that are out of service and why"
_LIMIT_SEC = "ask for less with --slurm time=TIME, or for another partition; sinfo -o '%P %l' shows the limits"
# What nobody must do anything about has no second part.
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
    "InvalidReservation": ("its reservation does not exist or is not for you", "scontrol show reservation lists them"),
    "ReqNodeNotAvail": ("nodes that it needs are down, drained or reserved", _NODES),
    "NodeDown": ("a node that it needs is down", _NODES),
    "BadConstraints": ("no node can fulfil what it asks for, so it will never start",
                       "stop it, and ask for fewer resources or other features; sinfo -o '%P %c %m %G %f' shows what "
                       "nodes have"),
    "PartitionDown": ("its partition is down", "wait, or use another one; sinfo -s lists them"),
    "PartitionInactive": ("its partition takes no jobs now", "wait, or use another one; sinfo -s lists them"),
    "PartitionNodeLimit": ("it needs more nodes than the partition allows, or nodes that are down",
                           "ask for fewer instances, or use another partition; scontrol show partition shows MaxNodes"),
    "PartitionTimeLimit": ("it asks for more time than the partition allows, so it will never start", _LIMIT_SEC),
    "TimeLimit": ("it has reached its time limit",),
    "AccountNotAllowed": ("its account may not use this partition", "use another account or partition"),
    "AccountingPolicy": ("a limit of your account is reached", "wait until your other jobs end"),
    "InvalidAccount": ("its account does not exist, or you may not use it",
                       "sacctmgr show associations user=$USER lists yours"),
    "InvalidQOS": ("its quality of service does not exist, or you may not use it", "sacctmgr show qos lists them"),
    "QOSNotAllowed": ("its quality of service may not use this partition", "use another qos or partition"),
    "JobHeldUser": ("you hold it", "scontrol release JOB lets it start"),
    "JobHeldAdmin": ("an administrator holds it", "ask the administrator of the cluster"),
    "JobHoldMaxRequeue": ("it was requeued too often, so Slurm holds it", "scontrol release JOB lets it start"),
    "JobLaunchFailure": ("it could not be started on its nodes", "ask the administrator of the cluster, or rerun it"),
    "launch failed requeued held": ("it could not be started on its nodes, so Slurm has requeued and holds it",
                                    "scontrol release JOB tries again"),
    "JobArrayTaskLimit": ("too many jobs of its array run at the same time",),
    "BurstBufferResources": ("the job waits for space in the burst buffer",),
    "BurstBufferStageIn": ("its data are copied to the burst buffer",),
    "BurstBufferOperation": ("an operation of the burst buffer has failed", "ask the administrator of the cluster"),
    "FedJobLock": ("another cluster of the federation looks at it",),
    "FrontEndDown": ("no front-end node of the cluster works", "ask the administrator of the cluster"),
    "NonZeroExitCode": ("it ended with an exit code that is not 0",),
    "OutOfMemory": ("it ran out of memory",),
    "RaisedSignal": ("it was killed by a signal",),
    "SchedDefer": ("Slurm starts no job at its submission here; it looks at the job in the next round",),
    "SystemFailure": ("Slurm, the file system or the network has failed", "ask the administrator of the cluster"),
    "InactiveLimit": ("it was inactive for too long",),
    "MaxRequeue": ("it was requeued as often as this cluster allows",),
    "QOSUsageThreshold": ("its quality of service has used up its share", "wait, or use another qos"),
    "ResvDelayed": ("the job waits for a reservation",),
}  # fmt: skip
_SCOPES = {"Assoc": "your account", "QOS": "its quality of service"}
_AMOUNTS = {
    "cpu": "cores", "mem": "memory", "memory": "memory", "node": "nodes", "nodes": "nodes", "gres": "GPUs",
    "job": "jobs", "jobs": "jobs", "submitjobs": "submitted jobs", "submitjob": "submitted jobs",
    "cputime": "core time", "wall": "time", "wallduration": "time", "billing": "billing units", "energy": "energy",
    "license": "licenses", "bb": "burst buffer",
}  # fmt: skip
_LIMIT = re.compile(r"(Assoc|QOS)(Grp|Max|Min)(\w+?)(Per(?:User|Account|Job|Node))?(?:Limit)?")
_TIME = re.compile(r"(\w+?)(RunMinutes|MinutesRun|Minutes)")
_END = re.compile(r"[,(].*", re.DOTALL)


def text(reason: str) -> str:
    """Slurm's term for why a job is pending, in words, with the term. One that is not known is returned as it is."""
    name = reason.strip()
    if name in ("None", "(None)"):
        return "Slurm has not looked at the job yet"
    name = name[1:-1] if name[:1] == "(" and name[-1:] == ")" else name
    term = _END.sub("", name).strip()
    known = _REASONS.get(name) or _REASONS.get(term) or _of_limit(term)
    return f"{'; '.join(known)} ({name})" if known else reason


def _of_limit(name: str) -> tuple[str, ...]:
    """A limit of an account or of a quality of service; empty if it is none."""
    if not (found := _LIMIT.fullmatch(name)):
        return ()
    scope, kind, amount, per = found.groups()
    what, where = _amount(amount), _SCOPES[scope]
    if kind == "Min":
        return (f"it asks for less {what} than {where} requires", "stop it and ask for more, or use another qos")
    if kind == "Grp":
        return (f"all jobs of {where} have reached their common limit of {what}", "it starts when others end")
    if per in ("PerJob", "PerNode"):
        return (f"it asks for more {what} than {where} allows for one job", "stop it and ask for less")
    return (f"your jobs have reached the limit of {what} of {where}", "it starts when others of yours end")


def _amount(name: str) -> str:
    if found := _TIME.fullmatch(name):
        return f"time with {_amount(found[1])}"
    return _AMOUNTS.get(name.lower(), name)
