"""The storage plugins: they mount a storage into the tasks, on engines that support it."""

from __future__ import annotations

import posixpath

from kedge.light.types import Any, Mapping
from kedge.plugins.base import Steps, Storage
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, list_of, string


class PvcStorage:
    """`pvc_storage`: the storage `name` at `mountPath`, which defaults to /mnt/NAME."""

    parameters = (
        Parameter("name", string, "the storage's name", required=True),
        Parameter("mountPath", string, "its path in the tasks; defaults to /mnt/NAME"),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        return _mounted(values["name"], values["mountPath"], "mountPath")


class RestStorage:
    """`com.microsoft.pai.rest.storage`: the storage `config` at `mountPoint`, which defaults to /mnt/CONFIG."""

    parameters = (
        Parameter("config", string, "the storage's name", required=True),
        Parameter("mountPoint", string, "its path in the tasks; defaults to /mnt/CONFIG"),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        return _mounted(values["config"], values["mountPoint"], "mountPoint")


class TeamwiseStorage:
    """`teamwise_storage`: the storages `storageConfigNames` at /mnt/NAME, or the user's default storages without names.
    Deprecated; it counts only in jobs without `extras.storages`."""

    parameters = (Parameter("storageConfigNames", list_of(string), "the names of the storages", default=()),)

    def steps(self, values: Mapping[str, Any]) -> Steps:
        found = tuple(Storage(name, f"/mnt/{name}") for name in values["storageConfigNames"])
        return Steps(storages=found, notes=("deprecated; list the storages in extras.storages instead",))


def _mounted(name: str, path: str | None, parameter: str) -> Steps:
    where = path or f"/mnt/{name}"
    if not where.startswith("/") or ".." in where.split("/"):
        raise ParameterError(Wrong(f"must be an absolute path without '..', not {where!r}", (parameter,)))
    return Steps(storages=(Storage(name, posixpath.normpath(where).replace("//", "/", 1)),))
