"""A job whose names all mean something: references rendered, prerequisites ordered, code found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from kedge.contract import Step, Text
from kedge.errors import Problem
from kedge.resolve.lock_file import Lock, Repository
from kedge.spec.model import Job, TaskRole


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the person who submits adds to the file. `parameters` are source texts, as after `-p`; `workdir` is a
    folder whose copy is the working directory of every task; `rules` are files with rules for causes of failures.

    About prerequisites from elsewhere: `marketplace` is a folder or a URL; `hosts` are the only ones that are asked,
    empty for all; `offline` takes everything from the lock file and the cache, a folder (None is the user's own);
    `update_lock` names what may have changed since the lock file was written, or is `all`.
    """

    user: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    workdir: str | None = None
    rules: tuple[str, ...] = ()
    marketplace: str | None = None
    hosts: tuple[str, ...] = ()
    offline: bool = False
    update_lock: tuple[str, ...] = ()
    cache: str | None = None


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secret values: `document` as in the job, `texts` every scalar in it by its key (`token`, `keys[0].name`)."""

    document: Mapping[str, Any] = field(repr=False)
    texts: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoleImage:
    """The container image of a role; `auth` values are texts that may hold secrets; `pin` is what the lock file has."""

    name: str
    uri: str
    auth: Mapping[str, Text] | None = None
    pin: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRole:
    """A role with its image, the assembled user command and its steps in start order.

    `lines` has the line of the job file for each line of the command. `code` names the snapshot (a key of
    ResolvedJob.code) in which its tasks start; None is an empty folder per task.
    """

    role: TaskRole
    image: RoleImage
    command: Text
    lines: tuple[int, ...]
    steps: tuple[Step, ...]
    code: str | None


class Mount(NamedTuple):
    """A storage, and where tasks see it."""

    name: str
    path: str


class RequirementEntry(NamedTuple):
    """One prerequisite that the job needs: the reference that led to it, where it is from (empty for the job file) and
    in which version, the values of its template variables as texts, and the numbers of the entries that it requires."""

    name: str
    type: str
    plugin: str | None
    reference: str
    origin: str
    version: str | None
    values: Mapping[str, str]
    needs: tuple[int, ...]


class Requirements(NamedTuple):
    """All prerequisites of a job, dependencies first, and the numbers of those that each role lists."""

    entries: tuple[RequirementEntry, ...] = ()
    roles: Mapping[str, tuple[int, ...]] = MappingProxyType({})


NOTHING_REQUIRED = Requirements()


class LockState(NamedTuple):
    """The job's lock file, what it says (None: there is no such file), and what it would say if it were written now;
    `repositories` are what the job clones without naming a commit; `images` are those whose pins are to be renewed."""

    path: str
    old: Lock | None
    new: Lock
    repositories: tuple[Repository, ...] = ()
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """The job as submitted, by whom, and what its names mean. `code` maps a snapshot's name to an absolute path;
    `rules` are the absolute paths of rule files; `inert` names the plugins that nothing acts on, `notes` are for the
    submitter, `warnings` about what is most likely not meant; `mounts` are the storages that all tasks see."""

    job: Job
    user: str
    roles: tuple[ResolvedRole, ...]
    code: Mapping[str, str]
    rules: tuple[str, ...]
    secrets: Secrets = field(repr=False)
    lock: LockState
    inert: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    requirements: Requirements = NOTHING_REQUIRED
    warnings: tuple[Problem, ...] = ()
