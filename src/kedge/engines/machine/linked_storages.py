"""Storages on engines that mount nothing: they link folders of the machine into the run folder."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kedge.contract import show_text, storage_variable
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Mount


def check(plan: Plan, engine: str = "local", where: str = "this machine") -> None:
    """CannotRun for a storage that is no folder of this machine. `engine` is the name of the engine, `where` is what
    runs its tasks."""
    for mount in plan.mounts:
        if mount.place and not mount.folder:
            other = "container" if mount.remote else "kubernetes"
            raise CannotRun(
                f"the storage {mount.name} is {mount.place}, and the {engine} engine mounts nothing: mount it on "
                f"{where} and set storages.{mount.name}.path in the site's file, or use --engine {other}"
            )


def notes(plan: Plan, engine: str = "local") -> Iterator[str]:
    """Where tasks find each storage, if that is not its mount path, and what the engine cannot enforce."""
    elsewhere = [mount for mount in plan.mounts if mount.folder and mount.folder != mount.path]
    variables = {mount: f"${storage_variable(mount.name)}" for mount in elsewhere}
    users = {mount: ", ".join(_users(plan, mount)) for mount in elsewhere}
    if found := [f"{mount.name} at {variables[mount]}" for mount in elsewhere if not users[mount]]:
        where = ", ".join(found)
        yield f"the {engine} engine mounts nothing: tasks find the storages {where}, not at their mount paths"
    for mount in (mount for mount in elsewhere if users[mount]):
        yield (
            f"the {engine} engine mounts nothing at {mount.path}: {users[mount]} must use {variables[mount]} for the "
            f"storage {mount.name}, which every engine sets"
        )
    if names := [mount.name for mount in plan.mounts if mount.folder and mount.read_only]:
        yield (
            f"read-only storages are not enforced here: {', '.join(dict.fromkeys(names))}; tasks have your permissions"
        )


def _users(plan: Plan, mount: Mount) -> Iterator[str]:
    """The roles with scripts that use the mount path."""
    path = re.compile(rf"(?<![\w./-]){re.escape(mount.path)}(?![\w.-])")
    for role in plan.roles:
        scripts = (role.command, *(callback.script for step in role.steps for callback in step.callbacks))
        if any(path.search(show_text(script)) for script in scripts):
            yield role.name
