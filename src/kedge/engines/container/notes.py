"""What the submitter should know of a job in containers. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from kedge.contract import show_text
from kedge.engines.container.client import Facts
from kedge.engines.container.render import DEFAULT_SHM_MB
from kedge.plan.model import Plan, RolePlan, action_text

_MIB = 1 << 20
_LOOPBACK = re.compile(r"\w+://(?:[^/@\s]*@)?(localhost|127(?:\.\d+){3}|\[::1\])(?=[:/\s\"]|$)")


def of(plan: Plan, facts: Facts, storages: Collection[str], fewer_gpus: str | None, infiniband: bool) -> Iterator[str]:
    """What this machine does not give that the plan asks for; one sentence each."""
    for role in plan.roles:
        yield from _clamped(role, facts)
    if not facts.limits_memory:
        yield f"{facts.name} cannot limit memory on this machine: memoryMB is not enforced"
    if not facts.limits_cpu:
        yield f"{facts.name} cannot limit CPUs on this machine: cpu is not enforced"
    if fewer_gpus:
        yield fewer_gpus
    if not infiniband and any(role.infiniband for role in plan.roles):
        yield "this machine has no InfiniBand device (/dev/infiniband): tasks run without one"
    if missing := [mount for mount in plan.mounts if mount.name not in storages]:
        wanted = ", ".join(f"{mount.name} at {mount.path}" for mount in missing)
        yield f"no folder is named for these storages, and tasks do not see them: {wanted}; use --storage NAME=FOLDER"


def loopback(plan: Plan) -> Iterator[str]:
    """Clones and downloads from an address that, inside a container, is the container itself."""
    for name in dict.fromkeys(step.name for role in plan.roles for step in role.steps):
        steps = (step for role in plan.roles for step in role.steps if step.name == name)
        texts = (show_text(action_text(callback.action)) for step in steps for callback in step.callbacks)
        if found := next(filter(None, map(_LOOPBACK.search, texts)), None):
            yield (
                f"{name}: {found[1]} inside a container is the container itself, not this machine: use another address "
                "of this machine, or --network host"
            )


def _clamped(role: RolePlan, facts: Facts) -> Iterator[str]:
    if role.resources.cpu > facts.cpus:
        yield f"{role.name} asks for {role.resources.cpu} CPUs and this machine has {facts.cpus}: it gets those"
    there = facts.memory // _MIB
    for what, wanted in (("memory", role.resources.memory_mb), ("shared memory", role.shm_mb or DEFAULT_SHM_MB)):
        if wanted > there:
            yield f"{role.name} asks for {wanted} MiB of {what} and this machine has {there}: it gets those"
