"""A resolved job: references rendered, prerequisites ordered, code located."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, NamedTuple

from kedge.contract import Step, Text
from kedge.errors import Problem
from kedge.quick_dataclasses import dataclass
from kedge.resolve.lock_file import Lock, Repository
from kedge.spec.model import Job, TaskRole


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What an earlier run was made of, to make the same job again without its files: the `text` of its job file, whose
    path was `file`; its lock; a folder with the `documents` of the lock by SHA-256; a folder with the snapshots of its
    `code`; its rule files; the names of its `secrets`. `job_dir` is a folder to begin with a copy of, if any."""

    run: str
    text: str = field(repr=False)
    file: str
    lock: Lock
    documents: str
    code: str
    rules: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    job_dir: str | None = None


class StorageNames(NamedTuple):
    """The names of the storages that the submitter may use, of those for a job with an empty list of storages, and the
    reason for each one that others may use."""

    usable: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    forbidden: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the submitter adds to the job file. `parameters` are source texts, as after `-p`; a copy of the folder
    `workdir` is the working directory of every task; `rules` are files with rules for causes of failures. `env` and
    `taken_env` are environment variables of all tasks; the latter, from the submitter's own environment, are secrets.
    `storages` are folders of the submitter's own by name. `notes` are for the submitter.
    The first task that fails is held for `hold_on_failure_sec`. With `record`, the job is made
    from that, and nothing else is read.

    For prerequisites outside the job: `marketplace` is a folder or a URL; `hosts` are the only hosts that may be
    contacted, empty for all; `offline` takes everything from the lock file and from `cache`, a folder (None for the
    user's default); `update_lock` names the entries that may have changed since the lock file was written, or `all`.

    kedge.plan and kedge.run take from the settings: `marketplaces`, the folders or URLs of those with a name,
    `usual_marketplace`, for a job that names none, and `storage_names`, without which a job may name any.
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
    marketplaces: Mapping[str, str] = field(default_factory=dict)
    usual_marketplace: str | None = None
    storages: Mapping[str, str] = field(default_factory=dict)
    storage_names: StorageNames | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    taken_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    record: RunRecord | None = None
    hold_on_failure_sec: float | None = None


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secret values: `document` as in the job, `texts` with every scalar by its key (`token`, `keys[0].name`)."""

    document: Mapping[str, Any] = field(repr=False)
    texts: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoleImage:
    """The container image of a role. `auth` values may contain secrets; `pin` is the digest from the lock file."""

    name: str
    uri: str
    auth: Mapping[str, Text] | None = None
    pin: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRole:
    """A role with its image, the assembled user command and its steps in start order.

    `lines` has the job file's line number for each line of the command. `code` names the snapshot (a key of
    ResolvedJob.code) that its tasks start in; None is an empty folder per task. `env` are the environment variables
    that the job and its submitter set. `outputs` are the names of its prerequisites that are folders of results.
    """

    role: TaskRole
    image: RoleImage
    command: Text
    lines: tuple[int, ...]
    steps: tuple[Step, ...]
    code: str | None
    env: Mapping[str, Text] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


class RemoteStorage(NamedTuple):
    """A file system of a server: an export of NFS or a share of CIFS with its mount options. `kind` is `nfs` or
    `cifs`, `path` starts with a slash. `credentials` is a file that whoever mounts it reads."""

    kind: str
    server: str
    path: str
    options: str = ""
    credentials: str | None = None

    @property
    def device(self) -> str:
        """What mount(8) calls the device."""
        if self.kind == "cifs":
            return f"//{self.server}{self.path}"
        return f"{f'[{self.server}]' if ':' in self.server else self.server}:{self.path}"


class VolumeClaim(NamedTuple):
    """A PersistentVolumeClaim of a namespace, by its name, and the folder in it; empty for all of it."""

    name: str
    path: str = ""


class Mount(NamedTuple):
    """A storage and its path in the tasks. It is a `folder` of this machine, `remote`, also behind that folder, or a
    `claim`, for Kubernetes; all are None where nothing is known about it."""

    name: str
    path: str
    read_only: bool = False
    folder: str | None = None
    remote: RemoteStorage | None = None
    claim: VolumeClaim | None = None

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        remote = f"{self.remote.kind} {self.remote.device}" if self.remote else ""
        return self.folder or remote or (f"claim {'/'.join(filter(None, self.claim))}" if self.claim else "")


class RequirementEntry(NamedTuple):
    """One prerequisite that the job requires: the first reference to it, its origin (empty for the job file) and
    version, the values of its template variables as texts, and the numbers of the entries that it requires."""

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
    """The path of the job's lock file, its content (None if there is no such file), and its content if it were written
    now. `repositories` are those that the job clones without naming a commit; `images` are those to pin again."""

    path: str
    old: Lock | None
    new: Lock
    repositories: tuple[Repository, ...] = ()
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """The job as submitted, its submitter, and everything its names refer to. `code` maps snapshot names to absolute
    paths; `rules` are absolute paths of rule files; `inert` names the plugins without effect; `notes` are for the
    submitter, `warnings` report likely mistakes; `mounts` are the storages of all tasks; `documents` are all that were
    read from outside the job file, by SHA-256; `needed_secrets` are the keys of the secrets that it refers to."""

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
    documents: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    needed_secrets: tuple[str, ...] = ()
