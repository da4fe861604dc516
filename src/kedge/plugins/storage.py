"""The storage plugins: a storage that is mounted into the tasks, by the engines that can."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from kedge.plugins.base import Steps, Storage
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, string


class PvcStorage:
    """`pvc_storage`: the storage `name` at `mountPath`, /mnt/NAME if not given."""

    parameters = (
        Parameter("name", string, "the storage", required=True),
        Parameter("mountPath", string, "where tasks see it; /mnt/NAME if not given"),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        return _mounted(values["name"], values["mountPath"], "mountPath")


class RestStorage:
    """`com.microsoft.pai.rest.storage`: the storage `config` at `mountPoint`, /mnt/CONFIG if not given."""

    parameters = (
        Parameter("config", string, "the storage", required=True),
        Parameter("mountPoint", string, "where tasks see it; /mnt/CONFIG if not given"),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        return _mounted(values["config"], values["mountPoint"], "mountPoint")


def _mounted(name: str, path: str | None, parameter: str) -> Steps:
    where = path or f"/mnt/{name}"
    if not where.startswith("/") or ".." in where.split("/"):
        raise ParameterError(Wrong(f"must be an absolute path without '..', not {where!r}", (parameter,)))
    return Steps(storages=(Storage(name, posixpath.normpath(where).replace("//", "/", 1)),))
