"""Makes this user the owner of files that containers left behind as another user, so that they can be deleted."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from kedge.bundle import build
from kedge.contract import PAI_HOME
from kedge.engines.container.api.client import Client
from kedge.engines.container.rendering.container_spec import JOB, Bind, ContainerSpec
from kedge.engines.container.rendering.render import BUNDLE, security
from kedge.errors import CannotRun
from kedge.runs.folder import Run

_RUN = f"{PAI_HOME}/run"
_CHOWN = """
import os, sys
for folder, folders, files in os.walk(sys.argv[1]):
    for name in (".", *folders, *files):
        os.lchown(os.path.join(folder, name), int(sys.argv[2]), -1)
"""
_DEADLINE_SEC = 120.0
_MEMORY = 64 << 20


def all_ours(folder: Path) -> bool:
    """Whether this user owns every folder in it, and so can delete its content."""
    if os.geteuid() == 0:
        return True
    # Checked from the parent folder, since the walk skips folders that cannot be read.
    found = (os.path.join(path, name) for path, folders, _ in os.walk(folder) for name in (".", *folders))
    return all(_is_ours(path) for path in found)


def _is_ours(path: str) -> bool:
    with suppress(FileNotFoundError):  # another command is removing the run, too
        return os.lstat(path).st_uid == os.geteuid()
    return True


def give_back(client: Client, run: Run) -> None:
    """Make this user the owner of all files of a run, with root in a container. CannotRun names another way."""
    bundle = build.ensure()
    facts = client.facts()
    owner = 0 if facts.rootless else os.geteuid()
    *python, _runtime = build.command(bundle, BUNDLE)
    try:
        spec = ContainerSpec(
            name=f"kedge-{run.id}-owner",
            image=_image(client, run),
            hostname="owner",
            entrypoint=(*python, "-c", _CHOWN, _RUN, str(owner)),
            environment={},
            labels={JOB: run.id},
            binds=(Bind(str(bundle.path), BUNDLE, read_only=True), Bind(str(run.path), _RUN)),
            tmpfs=(),
            memory=None,
            cpus=None,
            shm=_MEMORY,
            network="none",
            user="0",
            security=security(facts),
        )
        client.create(spec)
        client.start(spec.name)
        _await(client, run.id)
        client.remove(spec.name)
    except CannotRun as error:
        raise CannotRun(
            f"{run.path} contains files that its containers wrote as another user and that you may not delete: "
            f"{error}. Delete them as root: rm -r {run.path}"
        ) from error


def _image(client: Client, run: Run) -> str:
    """The job's own image, or any other, since the program that runs in it is the bundle's. CannotRun if there is
    none."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        for role in run.plan()["roles"]:
            if found := client.image(str(role["image"])):
                return found.id
    for name in client.images():
        return name
    raise CannotRun("changing their owner needs an image, and the container engine has none; pull any image")


def _await(client: Client, run_id: str) -> None:
    end = time.monotonic() + _DEADLINE_SEC
    while any(seen.running for seen in client.containers(f"{JOB}={run_id}")):
        if time.monotonic() > end:
            raise CannotRun(f"changing their owner took longer than {_DEADLINE_SEC:.0f} s")
        time.sleep(0.05)
