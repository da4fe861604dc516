"""Storages on the local engine, which mounts nothing: it links folders of this machine into the run folder."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kedge.contract import show_text, storage_variable
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Mount


def check(plan: Plan) -> None:
    """CannotRun for a storage that is no folder of this machine."""
    for mount in plan.mounts:
        if mount.remote:
            raise CannotRun(
                f"the storage {mount.name} is {mount.place}, and the local engine mounts nothing: mount it on this "
                f"machine and set storages.{mount.name}.path in the site's file, or use --engine container"
            )


def notes(plan: Plan) -> Iterator[str]:
    """Where tasks find each storage, if that is not its mount path, and what the engine cannot enforce."""
    for mount in plan.mounts:
        variable = f"${storage_variable(mount.name)}"
        if mount.folder and mount.folder != mount.path:
            found = f"the storage {mount.name} is at {variable}, not at {mount.path}"
            yield f"the local engine mounts nothing: {found}{_users(plan, mount, variable)}"
    if names := [mount.name for mount in plan.mounts if mount.folder and mount.read_only]:
        yield (
            f"read-only storages are not enforced here: {', '.join(dict.fromkeys(names))}; tasks have your permissions"
        )


def _users(plan: Plan, mount: Mount, variable: str) -> str:
    """Which roles have scripts that use the mount path, as the end of a note."""
    path = re.compile(rf"(?<![\w./-]){re.escape(mount.path)}(?![\w.-])")
    roles = [
        role.name
        for role in plan.roles
        if any(
            path.search(show_text(text))
            for text in (role.command, *(c.script for s in role.steps for c in s.callbacks))
        )
    ]
    return f"; {', '.join(roles)} must use {variable}, which every engine sets" if roles else ""
