"""What FrameworkController cannot do for a job, or does in another way than kedge's own controller."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.contract import SecretRef
from kedge.engines.kubernetes import job_folder_use
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan, RolePlan

_INSTEAD = "leave --controller framework out, so that kedge's own driver runs the job"


def check(plan: Plan, options: KubernetesOptions) -> None:
    """CannotRun: the job would mean something else as a Framework."""
    if not options.image:
        raise CannotRun(
            "no runtime image is named, which brings the init phase into pods: make it with kedge bundle --oci DIR, "
            "push it to a registry of the cluster, and set registry or engines.kubernetes.image in the site's file"
        )
    for reason in _reasons(plan):
        raise CannotRun(f"{reason}; {_INSTEAD}")


def _reasons(plan: Plan) -> Iterator[str]:
    if plan.code:
        yield "a Framework carries no code of this machine: put it into the image or a git prerequisite"
    if plan.every_task_succeeds:
        yield "FrameworkController has no policy by which every task must succeed and all run to their end"
    if used := job_folder_use.places(plan):
        yield f"{used[0]}: pods of a Framework have no $KEDGE_JOB_DIR"
    for entry in plan.requirements.entries:
        if entry.origin and entry.plugin:
            yield f"the prerequisite {entry.name} is not in the job file, and pods of a Framework read only that"
    for role in plan.roles:
        if name := _secret_variable(role):
            yield f"the variable {name} of {role.name} holds a secret, which a Framework would show to everybody"


def _secret_variable(role: RolePlan) -> str:
    return next((name for name, text in role.env.items() if any(isinstance(part, SecretRef) for part in text)), "")


def notes(plan: Plan, options: KubernetesOptions) -> Iterator[str]:
    """What is different, in one note, and what is lost of the logs."""
    lost = ["retries by cause and their back-off", "outputs"]
    limits = plan.time_limit or any(role.time_limit or role.attempt_time_limit for role in plan.roles)
    lost += ["time limits"] if limits else []
    lost += [f"queue {options.queue} of Kueue"] if options.queue else []
    lost += ["holding a failed task"] if plan.hold_sec is not None else []
    if options.queue:
        yield f"pods of a Framework do not wait in the queue {options.queue}: they start as the cluster has room"
    yield f"FrameworkController decides about ends and retries; it has no {', '.join(lost)} (docs/kubernetes.md)"
    place = f"{options.framework_logs} of their nodes" if options.framework_logs else ""
    yield "logs are read while tasks run, because their pods go when they end; " + (
        f"all of them stay in {place}" if place else "what no command of kedge follows is lost"
    )
