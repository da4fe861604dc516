"""A job whose names all mean something: references rendered, prerequisites ordered, code found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kedge.contract import Step, Text
from kedge.spec.model import Job, TaskRole


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the person who submits adds to the file. `parameters` are source texts, as after `-p`; `workdir` is a
    folder whose copy is the working directory of every task; `rules` are files with rules for causes of failures."""

    user: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    workdir: str | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secret values: `document` as in the job, `texts` every scalar in it by its key (`token`, `keys[0].name`)."""

    document: Mapping[str, Any] = field(repr=False)
    texts: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Image:
    """The container image of a role; `auth` values are texts that may hold secrets."""

    name: str
    uri: str
    auth: Mapping[str, Text] | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRole:
    """A role with its image, the assembled user command and its steps in start order.

    `code` names the snapshot (a key of ResolvedJob.code) in which its tasks start; None is an empty folder per task.
    """

    role: TaskRole
    image: Image
    command: Text
    steps: tuple[Step, ...]
    code: str | None


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """The job as submitted, by whom, and what its names mean. `code` maps a snapshot's name to an absolute path;
    `rules` are the absolute paths of rule files; `inert` names the plugins that nothing acts on, `notices` are for the
    submitter."""

    job: Job
    user: str
    roles: tuple[ResolvedRole, ...]
    code: Mapping[str, str]
    rules: tuple[str, ...]
    secrets: Secrets = field(repr=False)
    inert: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
