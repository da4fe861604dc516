"""The storages of a job's tasks and their mount paths, from the job's own list and from its prerequisites."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kedge.contract import PAI_HOME
from kedge.errors import INVALID, NO_STORAGE, Problem
from kedge.resolve.model import Mount, StorageNames
from kedge.resolve.steps import Findings
from kedge.spec.model import Job, JobFileSource, Path
from kedge.spec.suggest import did_you_mean, name_list
from kedge.spec.tolerant import entries

_RESERVED = (PAI_HOME, "/proc", "/sys", "/dev")  # a storage there would hide what a task needs to run


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


def of_job(job: Job, findings: Findings, defaults: Iterable[str] = ()) -> list[StorageRequest]:
    """The requests of the job itself. An empty list means the user's default storages; without a list, those of the
    older plugin teamwise_storage count (of its last entry, if there are several)."""
    path: Path = ("extras", "storages")
    listed = list(requests(job.extras.get("storages"), job.source, path))
    empty = "storages" in job.extras and not job.extras["storages"]
    if "storages" not in job.extras and findings.older_storages:
        path, names = max(findings.older_storages.items(), key=lambda entry: int(entry[0][-1]))
        path = (*path, "parameters", "storageConfigNames")
        listed = [StorageRequest(name, None, job.source, (*path, number)) for number, name in enumerate(names)]
        empty = not names
    return [StorageRequest(name, None, job.source, path) for name in defaults] if empty else listed


def of_plugins(findings: Findings) -> Iterator[StorageRequest]:
    """The requests of plugins."""
    for storage, source, path in findings.storages:
        yield StorageRequest(storage.name, storage.mount_path, source, path)


def unrequested(given: Mapping[str, str], wanted: Iterable[StorageRequest]) -> list[str]:
    """A message for each folder that the submitter names for a storage which the job does not have."""
    names = {request.name for request in wanted}
    has = f"it has {', '.join(sorted(names))}" if names else "it has none"
    return [f"--storage {name}: the job has no storage of that name; {has}" for name in given if name not in names]


def merge(
    wanted: Iterable[StorageRequest], known: StorageNames | None = None, given: Iterable[str] = ()
) -> tuple[tuple[Mount, ...], list[Problem], list[str]]:
    """Every mount once, in the order of the requests; the problems; and notes for the submitter.

    `known` are the storages of the submitter; None means that any name may be used. A name in `given` that no request
    has is a mistake of the submitter, and no suggestion.
    """
    wanted = list(wanted)
    if known is not None and (mistyped := set(given) - {request.name for request in wanted}):
        known = known._replace(usable=tuple(name for name in known.usable if name not in mistyped))
    mounts: dict[str, Mount] = {}
    problems: list[Problem] = []
    for request in wanted:
        path = _normal(request)
        if known is not None and request.name not in known.usable:
            problems.append(_problem(request, _not_usable(request.name, known), NO_STORAGE))
        elif path is None:
            message = f"the mount path {request.path!r} must be absolute and must not contain '..'"
            problems.append(_problem(request, message))
        elif any(_inside(path, taken) or _inside(taken, path) for taken in _RESERVED):
            problems.append(_problem(request, f"no storage can be mounted at {path}; choose another mount path"))
        elif mounts.setdefault(path, Mount(request.name, path)).name != request.name:
            message = f"Mount path {path} is used by storages {mounts[path].name} and {request.name}."
            problems.append(_problem(request, message))
    return tuple(mounts.values()), problems, list(_nested(mounts))


def _inside(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _not_usable(name: str, known: StorageNames) -> str:
    if name in known.forbidden:
        return f"Storage {name} is not for you: {known.forbidden[name]}. {_usable(known)}"
    if not known.usable and not known.forbidden:
        return f"Storage {name} is not found: none is configured. Use a folder of your own: --storage {name}=FOLDER"
    return f"Storage {name} is not found{did_you_mean(name, known.usable) or '.'} {_usable(known)}"


def _usable(known: StorageNames) -> str:
    if known.usable:
        return f"You may use {name_list(known.usable)}"
    return "You may use none of those that are configured"


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
