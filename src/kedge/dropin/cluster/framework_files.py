"""The files that a framework is written to: the object itself, and a script with the addresses of all tasks."""

from __future__ import annotations

import os

from kedge.contract import converted_role
from kedge.dropin.cluster import framework_status
from kedge.light import json
from kedge.light.types import Any, Iterator, Mapping, Sequence
from kedge.own_files import replace_file

ROLE_NAMES = "taskRoleNames"  # an annotation: JSON, the framework's name of a role -> its name in the job
_IN_ADDRESSES = frozenset("0123456789abcdefABCDEF.:")
_IN_VARIABLES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def write(framework: Mapping[str, Any], path: str) -> None:
    """Write the framework at once, with mode 0644. OSError."""
    _write(path, f"{json.dumps(dict(framework))}\n", 0o644)


def write_injector(framework: Mapping[str, Any], path: str) -> None:
    """Write a script that exports the addresses of all tasks, with mode 0755. OSError."""
    lines = ["#!/bin/sh", *_exports(framework)]
    _write(path, "".join(f"{line}\n" for line in lines), 0o755)


def with_role_names(framework: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The framework with the names that its roles have in the job as an annotation. FrameworkController allows only
    lower-case letters and digits, so that `worker_1` is `worker1` there."""
    metadata = framework_status.mapping(framework.get("metadata"))
    annotations = framework_status.mapping(metadata.get("annotations"))
    roles = [role for role, _ in framework_status.addresses(framework)]
    original = {converted_role(name): name for name in environment.get("PAI_TASK_ROLE_LIST", "").split(",") if name}
    names = {role: original[role] for role in roles if role in original}
    if not names or ROLE_NAMES in annotations:
        return framework
    annotations = {**annotations, ROLE_NAMES: json.dumps(names)}
    return {**framework, "metadata": {**metadata, "annotations": annotations}}


def _exports(framework: Mapping[str, Any]) -> Iterator[str]:
    for role, found in framework_status.addresses(framework):
        ips = [ip for ip in found if _IN_ADDRESSES.issuperset(ip)]
        for name in _variables(framework, role):
            port = f"${{FB_{name}_PORT}}"
            hosts = (f"[{ip}]" if ":" in ip else ip for ip in ips)
            yield f'export FB_{name}_IPS="{",".join(ips)}"'
            yield f'export FB_{name}_ADDRESSES="{",".join(f"{host}:{port}" for host in hosts)}"'


def _variables(framework: Mapping[str, Any], role: str) -> Sequence[str]:
    """The role's name as a part of variables, in its spellings."""
    annotations = framework_status.mapping(framework_status.mapping(framework.get("metadata")).get("annotations"))
    try:
        names = framework_status.mapping(json.loads(framework_status.text(annotations.get(ROLE_NAMES)) or "{}"))
    except (ValueError, RecursionError):
        names = {}
    spellings = dict.fromkeys(each.upper() for each in (role, framework_status.text(names.get(role))) if each)
    return [name for name in spellings if _IN_VARIABLES.issuperset(name)]


def _write(path: str, content: str, mode: int) -> None:
    replace_file(path, content.encode("utf-8", "surrogatepass"), mode, synced=False)
    os.chmod(path, mode)  # whatever the umask is
