"""Advice for errors of sbatch and of Slurm's other commands: what they printed, and what to change.

Source of the error texts: slurm_strerror of Slurm 22.05; other versions have the same texts.
"""

from __future__ import annotations

from collections.abc import Mapping

from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import resources
from kedge.plan.model import Plan

# A part of Slurm's error text, in lower case -> what to do. The first match counts.
_PARTITION = "name another partition with --slurm partition=NAME; sinfo lists them"
_TIME = "ask for less with --slurm time=TIME; sinfo -o '%P %l' shows the limits"
_GRES = "name the GPUs as this cluster does with --slurm gres=NAME; sinfo -o '%G' shows them"
_RESERVATION = "check --slurm reservation=NAME; scontrol show reservation lists them"
_SIZE = "ask for less in resourcePerInstance, or for another partition; sinfo -o '%P %c %m %G' shows what nodes have"
_ADVICE = {
    "invalid partition": _PARTITION,
    "no partition specified": "name a partition with --slurm partition=NAME; sinfo lists them",
    "required partition not available": _PARTITION,
    "partition in down state": _PARTITION,
    "group not permitted": "that partition is for other groups (AllowGroups in scontrol show partition); name another "
    "one with --slurm partition=NAME",
    "access/permission denied": "the partition may be for administrators (RootOnly) or for other login nodes "
    "(AllocNodes in scontrol show partition), or you may not use this cluster",
    "invalid account": "name one of your accounts with --slurm account=NAME; "
    "sacctmgr show associations user=$USER lists them",
    "invalid qos": "name a quality of service that you may use with --slurm qos=NAME; sacctmgr show qos lists all",
    "reservation": _RESERVATION,
    "node configuration is not available": _SIZE,
    "partition configuration not available": _SIZE,
    "more processors requested than permitted": "ask for fewer CPUs in resourcePerInstance",
    "more tasks than available processors": "ask for fewer instances, or for another partition",
    "node count": "ask for fewer instances, or for another partition",
    "unsupported by configured selecttype": "Slurm supports GPUs per task only with SelectType=select/cons_tres; ask "
    "the cluster's administrator",
    "generic resource": _GRES,
    "invalid gres": _GRES,
    "insufficient gres": _SIZE,
    "invalid feature": "check --slurm constraint=FEATURES; sinfo -o '%f' shows the features",
    "license": "correct the licenses in engines.slurm.sbatch of the site's file; scontrol show licenses lists them",
    "qosmaxsubmitjob": "you have reached your limit of submitted jobs: wait until one ends, or use another qos",
    "violates accounting/qos policy": "the job exceeds a limit of your account: ask for less time, fewer nodes, or "
    "another qos or account",
    "qos usage threshold": "your account has used up its share: wait, or use another qos",
    "time limit": _TIME,
    "memory": "ask for less memoryMB in resourcePerInstance",
    "submissions disabled": "the cluster accepts no jobs now: try again later, or ask its administrator",
    "unable to create job record": "the cluster has reached its limit of jobs (MaxJobCount): try again later",
    "error writing script": "slurmctld cannot store the job; ask the cluster's administrator",
}
_OF_MACHINE = {
    "could not establish a configuration source": "this machine has no configuration of Slurm: run kedge on a login "
    "node, or set SLURM_CONF, or engines.slurm.conf in the site's file",
    "unable to process configuration file": "correct that file, or name another one with SLURM_CONF or "
    "engines.slurm.conf in the site's file",
    "unable to establish control machine address": "this machine does not know the host of Slurm's controller "
    "(SlurmctldHost): run kedge on a login node, or ask the cluster's administrator",
    "incompatible versions": "the commands on this machine do not fit the cluster's version of Slurm; name the folder "
    "of commands that do with engines.slurm.commands in the site's file",
    "munge": "munge does not work on this machine; ask its administrator",
    "authentication error": "munge does not work on this machine; ask its administrator",
    "credential": "munge does not work on this machine; ask its administrator",
}
_NO_COMPONENTS = "requested operation not supported"
_SILENT = "Slurm's controller does not answer: try again later; scontrol ping shows whether it works"


def explained(said: str, plan: Plan, options: SlurmOptions) -> str:
    """What sbatch said, and what to change."""
    lower = said.lower()
    advice = _found(_OF_MACHINE, lower) or _found(_ADVICE, lower)
    if advice == _SIZE:
        advice += _of_threads(plan)
    if _NO_COMPONENTS in lower and not resources.is_packed(plan):
        advice = (
            "give all roles the same resourcePerInstance: this cluster may not support heterogeneous jobs, which need "
            "SchedulerType=sched/backfill"
        )
    if not advice and ("contact slurm controller" in lower or "has not answered" in lower or "timed out" in lower):
        advice = _SILENT
    return f"Slurm has not accepted the job {plan.job}: {_with(said, advice)}"


def unanswered(said: str) -> str:
    """The error of a command that could not reach Slurm at all, and what to change."""
    return _with(said, _found(_OF_MACHINE, said.lower()))


def _with(said: str, advice: str) -> str:
    return f"{said}. What to do: {advice}" if advice else said


def _found(table: Mapping[str, str], lower: str) -> str:
    return next((text for part, text in table.items() if part in lower), "")


def _of_threads(plan: Plan) -> str:
    """Why a node may seem too small: Slurm counts memory for each thread of the cores that it gives."""
    if not (odd := [role.name for role in plan.roles if resources.shape(role).cpus % 2]):
        return ""
    return (
        f". If the cluster's cores have two threads, Slurm gives whole cores and counts memory for each thread: an "
        f"even cpu for {', '.join(odd)} avoids waste"
    )
