"""Builds the spec of one task from the plan and the task's placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kedge.contract import LogPolicy, TaskSpec, TaskTimeLimit, storage_variable
from kedge.plan.environment import task_environment
from kedge.plan.model import Plan
from kedge.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and when one attempt of a task runs, as decided by its engine. `extra` are additional variables of the
    engine; `storages` are the paths of storages in the task, by name; `rules` and `exit_spec` are the job's files for
    the diagnosis; `time_limits` are those of the attempt."""

    job_id: str
    job_attempt: int
    task_attempt: int
    uid: str
    folder: str
    workdir: str
    host: str
    ports: Mapping[str, list[int]]
    peers_file: str
    job_dir: str | None
    output_dir: str | None = None
    code: str | None = None
    secrets_dir: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    logs: LogPolicy = LogPolicy()
    rules: tuple[str, ...] = ()
    exit_spec: str | None = None
    time_limits: tuple[TaskTimeLimit, ...] = ()
    storages: Mapping[str, str] = field(default_factory=dict)


def task_spec(plan: Plan, role_name: str, index: int, placement: Placement) -> TaskSpec:
    """The TaskSpec of task `index` of a role."""
    role = plan.role(role_name)
    shared = {**plan.environment, **role.environment}
    return TaskSpec(
        user=plan.user,
        job=plan.job,
        job_id=placement.job_id,
        role=role.name,
        task_index=index,
        job_attempt=placement.job_attempt,
        task_attempt=placement.task_attempt,
        uid=placement.uid,
        folder=placement.folder,
        workdir=placement.workdir,
        environment={
            **shared,
            **task_environment(shared, index),
            **_attempt(placement),
            **_storages(placement),
            **placement.extra,
        },
        env=dict(role.env),
        command=role.command,
        steps=role.steps,
        host=placement.host,
        ports=dict(placement.ports),
        peers_file=placement.peers_file,
        secrets_dir=placement.secrets_dir,
        mask=plan.mask,
        stop=role.stop,
        logs=placement.logs,
        rules=placement.rules,
        exit_spec=placement.exit_spec,
        time_limits=placement.time_limits,
        warn_before_sec=role.warn_before_sec,
        hold_sec=plan.hold_sec,
        output_dir=placement.output_dir,
        job_dir=placement.job_dir,
        code=placement.code,
        outputs=role.outputs,
    )


def _storages(placement: Placement) -> dict[str, str]:
    """The variables of the storages; of two names with the same variable, the first counts."""
    found: dict[str, str] = {}
    for name, path in placement.storages.items():
        found.setdefault(storage_variable(name), path)
    return found


def _attempt(placement: Placement) -> dict[str, str]:
    """FrameworkController's identifiers of this attempt. The job's id replaces the UIDs of objects that exist only in
    a cluster."""
    job, pod = placement.job_id, placement.uid
    return {
        "FC_FRAMEWORK_UID": job,
        "FC_FRAMEWORK_ATTEMPT_ID": str(placement.job_attempt),
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"{placement.job_attempt}_{job}",
        "FC_CONFIGMAP_UID": job,
        "FC_TASKROLE_UID": job,
        "FC_TASK_UID": job,
        "FC_TASK_ATTEMPT_ID": str(placement.task_attempt),
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"{placement.task_attempt}_{pod}",
        "FC_POD_UID": pod,
    }
