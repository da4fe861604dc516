"""What the submitter of a job should know about how Kubernetes runs it."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.contract import duration_text
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.plan.model import Plan
from kedge.spec.units import seconds


def of(plan: Plan, options: KubernetesOptions) -> Iterator[str]:
    """The notes."""
    if not options.run_volume:
        what = "the run folder" if options.outputs_volume else "the run folder, with up to 100 MiB of a task's outputs,"
        yield f"{what} is in the job's driver until it has been copied to this machine, at most {_time(options.keep)}"
    if options.outputs_volume:
        yield (
            f"outputs and $KEDGE_JOB_DIR are on the claim {options.outputs_volume} of the namespace; kedge outputs "
            "lists them, and kedge cp copies them to this machine"
        )
    elif options.run_volume:
        yield (
            "this site has no volume for outputs: when a task ends up to 100 MiB of its outputs are kept, and what is "
            "above is lost"
        )
    if not options.privileged and (roles := ", ".join(role.name for role in plan.roles if role.infiniband)):
        yield (
            f"tasks of {roles} get {options.rdma}, but not the capability IPC_LOCK, without which some nodes let them "
            "register little memory; only a site that sets privileged gives it"
        )
    if options.privileged:
        yield "tasks get the rights that OpenPAI gives them (privileged, set by the site)"
    if names := ", ".join(role.name for role in plan.roles if role.auth):
        yield f"the credentials for the images of {names} are in a Secret, which others in the namespace may read"


def _time(text: str) -> str:
    return duration_text(seconds(text))
