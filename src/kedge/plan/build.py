"""Builds a plan from a resolved job. Pure: it uses no clock, files or environment."""

from __future__ import annotations

from kedge.contract import JOB_TIME_LIMIT, StopPolicy, TaskTimeLimit
from kedge.plan.environment import job_environment, role_environment
from kedge.plan.model import Plan, RetryPolicy, RolePlan
from kedge.resolve.model import ResolvedJob, ResolvedRole
from kedge.spec.model import KedgeExtras, StopSettings

_OF_ROLE = "extras.kedge.taskRoles.{}"


def build(resolved: ResolvedJob) -> Plan:
    """The plan of a job. The same job gives the same plan."""
    job = resolved.job
    settings = job.kedge
    return Plan(
        user=resolved.user,
        job=job.name,
        virtual_cluster=job.virtual_cluster,
        gang=job.gang_allocation,
        retry=RetryPolicy(job.job_retry_count, settings.max_transient, settings.backoff_sec),
        stop=_stop(settings.stop),
        time_limit=_limit(JOB_TIME_LIMIT, settings.time_limit_sec),
        mask=settings.mask,
        environment=job_environment(resolved),
        roles=tuple(_role(role, settings) for role in resolved.roles),
        code=dict(resolved.code),
        rules=resolved.rules,
        notes=_notes(resolved),
        mounts=resolved.mounts,
        requirements=resolved.requirements,
        every_task_succeeds=settings.every_task_succeeds,
        shares_code=settings.shares_code,
    )


def _role(resolved: ResolvedRole, settings: KedgeExtras) -> RolePlan:
    role = resolved.role
    own = settings.role(role.name)
    return RolePlan(
        name=role.name,
        instances=role.instances,
        image=resolved.image.uri,
        auth=resolved.image.auth,
        resources=role.resources,
        shm_mb=role.shm_mb,
        infiniband=role.infiniband,
        completion=role.completion,
        task_retry_count=role.task_retry_count,
        environment=role_environment(role),
        env=dict(resolved.env),
        outputs=resolved.outputs,
        command=resolved.command,
        lines=resolved.lines,
        steps=resolved.steps,
        code=resolved.code,
        pin=resolved.image.pin,
        capabilities=settings.capabilities.get(role.name, ()),
        stop=_stop(own.stop),
        time_limit=_limit(f"{_OF_ROLE.format(role.name)}.timeLimit", own.time_limit_sec),
        attempt_time_limit=_limit(f"{_OF_ROLE.format(role.name)}.attemptTimeLimit", own.attempt_time_limit_sec)
        or _limit("extras.kedge.attemptTimeLimit", settings.attempt_time_limit_sec),
        warn_before_sec=settings.warn_before_sec if own.warn_before_sec is None else own.warn_before_sec,
    )


def _limit(key: str, limit_sec: float | None) -> TaskTimeLimit | None:
    return None if limit_sec is None else TaskTimeLimit(key, limit_sec)


def _stop(settings: StopSettings) -> StopPolicy:
    return StopPolicy(settings.signal, settings.grace_sec, settings.target)


def _notes(resolved: ResolvedJob) -> tuple[str, ...]:
    inert = dict.fromkeys((*resolved.inert, *resolved.job.inert))
    without_effect = (f"checked, but without effect in this version: {', '.join(inert)}",) if inert else ()
    return (*without_effect, *dict.fromkeys(resolved.notes))
