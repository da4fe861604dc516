"""The storages of a job's tasks and their mount paths, from the job's own list and from its prerequisites."""

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
    """A requested storage, mounted at `path` or by default at /mnt/NAME; `where` is the request's path in its file."""

    name: str
    path: str | None
    source: JobFileSource
    where: Path


def requests(value: object, source: JobFileSource, where: Path) -> Iterator[StorageRequest]:
    """The requests in a list of `{name, mountPath}`. Entries without a name are skipped."""
    for index, entry in entries(value):
        if entry.get("name"):
            path = entry.get("mountPath")
            yield StorageRequest(str(entry["name"]), None if path is None else str(path), source, (*where, index))


def of_job(job: Job, defaults: Iterable[str] = ()) -> list[StorageRequest]:
    """The requests of the job itself. An empty list means the user's default storages; without a list, those of the
    older plugin teamwise_storage count (of its last entry, if there are several)."""
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
    """Every mount once, in the order of the requests; the problems; and notes for the submitter.

    `usable` are the storages that the submitter may use; None means all.
    """
    mounts: dict[str, Mount] = {}
    problems: list[Problem] = []
    for request in wanted:
        path = _normal(request)
        if usable is not None and request.name not in usable:
            problems.append(_problem(request, f"Storage {request.name} is not found.", NO_STORAGE))
        elif path is None:
            message = f"the mount path {request.path!r} must be absolute and must not contain '..'"
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
                yield f"the storage {inner.name} at {inner.path} is mounted inside the storage {outer.name}"


def _problem(request: StorageRequest, message: str, code: str = INVALID) -> Problem:
    return request.source.problem(request.where, message)._replace(code=code)
