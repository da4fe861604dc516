"""Which storages a job's tasks see, and where: what the job lists and what its prerequisites require, put together."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kedge.errors import INVALID, NO_STORAGE, Problem
from kedge.resolve.model import Mount
from kedge.spec.model import Job, JobFileSource, Path
from kedge.spec.tolerant import entries, items, mapping

_TEAMWISE = "teamwise_storage"


class StorageRequest(NamedTuple):
    """A storage that somebody wants, at `path` or else at /mnt/NAME; `where` is the place of the wish in its file."""

    name: str
    path: str | None
    source: JobFileSource
    where: Path


def requests(value: object, source: JobFileSource, where: Path) -> Iterator[StorageRequest]:
    """What a list of `{name, mountPath}` asks for. Entries without a name ask for nothing."""
    for index, entry in entries(value):
        if entry.get("name"):
            path = entry.get("mountPath")
            yield StorageRequest(str(entry["name"]), None if path is None else str(path), source, (*where, index))


def of_job(job: Job, defaults: Iterable[str] = ()) -> list[StorageRequest]:
    """What the job itself lists. An empty list stands for the user's default storages; where there is no list, the
    older plugin teamwise_storage counts, the last entry of several."""
    path: Path = ("extras", "storages")
    if "storages" in job.extras:
        listed = list(requests(job.extras["storages"], job.source, path))
        return listed if job.extras["storages"] else [StorageRequest(name, None, job.source, path) for name in defaults]
    found: list[StorageRequest] = []
    for plugin in job.runtime_plugins:
        if plugin.plugin == _TEAMWISE:
            names = items(mapping(plugin.parameters).get("storageConfigNames"))
            here = (*plugin.path, "parameters", "storageConfigNames")
            found = [StorageRequest(str(name), None, job.source, (*here, n)) for n, name in enumerate(names)]
    return found


def merge(
    wanted: Iterable[StorageRequest], usable: Collection[str] | None = None
) -> tuple[tuple[Mount, ...], list[Problem], list[str]]:
    """Every mount once, in the order of the wishes; what is wrong; and what the submitter should know.

    `usable` are the storages that the submitter may use, None for any.
    """
    mounts: dict[str, Mount] = {}
    problems: list[Problem] = []
    for request in wanted:
        path = _normal(request)
        if usable is not None and request.name not in usable:
            problems.append(_problem(request, f"Storage {request.name} is not found.", NO_STORAGE))
        elif path is None:
            message = f"the mount path {request.path!r} is not absolute, or holds '..'"
            problems.append(_problem(request, message))
        elif mounts.setdefault(path, Mount(request.name, path)).name != request.name:
            message = f"Mount path {path} is used by storages {mounts[path].name} and {request.name}."
            problems.append(_problem(request, message))
    return tuple(mounts.values()), problems, list(_nested(mounts))


def _normal(request: StorageRequest) -> str | None:
    path = request.path or f"/mnt/{request.name}"
    if not path.startswith("/") or ".." in path.split("/"):
        return None
    return "/" + posixpath.normpath(path).lstrip("/")


def _nested(mounts: dict[str, Mount]) -> Iterator[str]:
    for inner in mounts.values():
        for outer in mounts.values():
            if inner.path.startswith(outer.path.rstrip("/") + "/"):
                yield f"the storage {inner.name} at {inner.path} stands inside of the storage {outer.name}"


def _problem(request: StorageRequest, message: str, code: str = INVALID) -> Problem:
    return request.source.problem(request.where, message)._replace(code=code)
