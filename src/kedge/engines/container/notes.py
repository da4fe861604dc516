"""Notes for the submitter of a job in containers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.contract import show_text
from kedge.engines.container.api.engine_answers import Facts
from kedge.engines.container.rendering.render import DEFAULT_SHM_MB
from kedge.late_patterns import late_pattern
from kedge.plan.model import Plan, RolePlan, action_text

_MIB = 1 << 20
_LOOPBACK = late_pattern(r"\w+://(?:[^/@\s]*@)?(localhost|127(?:\.\d+){3}|\[::1\])(?=[:/\s\"]|$)")


def of(plan: Plan, facts: Facts, fewer_gpus: str | None, infiniband: bool) -> Iterator[str]:
    """What the plan requests and this machine does not provide; one sentence each."""
    for role in plan.roles:
        yield from _capped(role, facts)
    if not facts.limits_memory:
        yield f"{facts.name} cannot limit memory on this machine: memoryMB is not enforced"
    if not facts.limits_cpu:
        yield f"{facts.name} cannot limit CPUs on this machine: cpu is not enforced"
    if fewer_gpus:
        yield fewer_gpus
    if not infiniband and any(role.infiniband for role in plan.roles):
        yield "this machine has no InfiniBand device (/dev/infiniband): tasks run without one"


def loopback(plan: Plan) -> Iterator[str]:
    """Notes about clones and downloads from a loopback address, which in a container is the container itself."""
    for name in dict.fromkeys(step.name for role in plan.roles for step in role.steps):
        steps = (step for role in plan.roles for step in role.steps if step.name == name)
        texts = (show_text(action_text(callback.action)) for step in steps for callback in step.callbacks)
        if found := next(filter(None, map(_LOOPBACK.search, texts)), None):
            yield (
                f"{name}: inside a container {found[1]} is the container itself, not this machine; use another address "
                "of this machine, or --network host"
            )


def _capped(role: RolePlan, facts: Facts) -> Iterator[str]:
    if role.resources.cpu > facts.cpus:
        yield f"{role.name} requests {role.resources.cpu} CPUs; capped at the {facts.cpus} of this machine"
    present = facts.memory // _MIB
    for what, wanted in (("memory", role.resources.memory_mb), ("shared memory", role.shm_mb or DEFAULT_SHM_MB)):
        if wanted > present:
            yield f"{role.name} requests {wanted} MiB of {what}; capped at the {present} MiB of this machine"
