"""Why sbatch has refused a job: its own words, and what to change."""

from __future__ import annotations

from kedge.engines.slurm.options import SlurmOptions
from kedge.plan.model import Plan

# A part of what sbatch says, in lower case -> what to do.
_ADVICE = {
    "invalid partition": "name another partition with --slurm partition=NAME; sinfo lists them",
    "no partition specified": "name a partition with --slurm partition=NAME; sinfo lists them",
    "invalid account": "name an account of yours with --slurm account=NAME; "
    "sacctmgr show associations user=$USER lists them",
    "invalid qos": "name a quality of service of yours with --slurm qos=NAME; sacctmgr show qos lists them",
    "requested time limit is invalid": "ask for less with --slurm time=TIME; sinfo -o '%P %l' shows the limits",
    "time limit": "ask for less with --slurm time=TIME; sinfo -o '%P %l' shows the limits",
    "node configuration is not available": "ask for less in resourcePerInstance, or for another partition; "
    "sinfo -o '%P %c %m %G' shows what nodes have",
    "more processors requested than permitted": "ask for fewer CPUs in resourcePerInstance",
    "node count": "ask for fewer instances, or for another partition",
    "invalid generic resource": "name the GPUs as this cluster does with --slurm gres=NAME; sinfo -o '%G' shows them",
    "invalid feature": "check --slurm constraint=FEATURES; sinfo -o '%f' shows the features",
    "reservation": "check --slurm reservation=NAME; scontrol show reservation lists them",
    "qosmaxsubmitjob": "you have as many jobs as you may have: wait until one ends, or use another qos",
    "violates accounting/qos policy": "it is more than your account may use: ask for less time, fewer nodes, or "
    "another qos or account",
    "memory": "ask for less memoryMB in resourcePerInstance",
    "credential": "munge does not work on this machine; that is for its administrator",
}
_SILENT = "Slurm's controller does not answer: try again later; scontrol ping shows whether it works"


def explained(said: str, plan: Plan, options: SlurmOptions) -> str:
    """What sbatch said, and what to change."""
    lower = said.lower()
    advice = next((text for part, text in _ADVICE.items() if part in lower), "")
    if not advice and ("contact slurm controller" in lower or "has not answered" in lower or "timed out" in lower):
        advice = _SILENT
    return f"Slurm has not accepted the job {plan.job}: {said}{f'. What to do: {advice}' if advice else ''}"
