"""The requests that a job would make to the container engine, for `kedge plan`."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from kedge.contract import CODE_DIR, JOB_DIR, LogPolicy
from kedge.engines.base import EngineRequest, Task
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import Facts, LocalImage
from kedge.engines.container.images import pinned_images
from kedge.engines.container.placement import ContainerPlaces, Given
from kedge.engines.container.rendering import render
from kedge.engines.container.rendering.command_line import command_line
from kedge.engines.container.rendering.render import ContainerPlace
from kedge.own_files import clear
from kedge.plan.model import Plan, RolePlan
from kedge.runs import code_snapshot
from kedge.runs.folder import Run

_RUN = "RUN"  # stands for the run's id
_NETWORK = "bridge"  # the engine's own, since there are no peers


def of_role(plan: Plan, name: str, client: Client, given: Given, on_host: bool) -> EngineRequest:
    """The container of a role's first task, on the network of this machine if `on_host`. Placeholders stand for what is
    only known when it runs."""
    role, task = plan.role(name), Task(name, 0)
    place = ContainerPlace(
        run_id=_RUN,
        job_attempt=0,
        task_attempt=0,
        uid="UID",
        folder=f"{_RUN}/attempt-0/{name}-0",
        shared=f"{_RUN}/attempt-0/shared",
        job_dir=f"{_RUN}/{JOB_DIR}",
        bundle=given.bundle,
        network="host" if on_host else f"kedge-{_RUN}",
        address=None if on_host else "ADDRESS",
        code=f"{_RUN}/{CODE_DIR}/{role.code}" if role.code else None,
        shares_code=plan.shares_code,
        cache=given.cache,
        storages=given.storages,
        volumes=given.volumes,
        infiniband=given.infiniband,
        options=given.options,
    )
    found = image(client, role, given.facts)
    return EngineRequest(str(task), render.render(plan, task, place, found, given.facts).to_json())


def of_task(plan: Plan, task: Task, client: Client, given: Given, on_host: bool, folder: Path) -> EngineRequest:
    """The container of a single task, with its files written below `folder`, so that its command line can be pasted.
    Its output goes to the terminal; it has no peers, secrets or GPUs of the job."""
    with suppress(OSError):
        clear(folder)
    if folder.exists():  # it cannot be removed, because root in a container has written there
        folder = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    os.makedirs(folder, 0o700, exist_ok=True)
    run = Run(folder)
    for name, source in plan.code.items():
        code_snapshot.copy(Path(source), run.code / name)
    given = given._replace(logs=LogPolicy(console=True))
    addresses = None if on_host else dict.fromkeys((Task(*t) for t in plan.tasks()), "")
    places = ContainerPlaces(plan, run, given, None if on_host else _NETWORK, addresses)
    places.reserve(0)
    spec = places.container(task, 0, 0, image(client, plan.role(task.role), given.facts))
    places.release()
    program = "podman" if given.facts.podman else "docker"
    return EngineRequest(str(task), spec.to_json(), command_line(spec, program))


def image(client: Client, role: RolePlan, facts: Facts) -> LocalImage:
    """The local image of a role; an image that has not been pulled is assumed to have default settings."""
    found = client.image(pinned_images.reference(role))
    return found or LocalImage("", facts.architecture, "", "/", {})
