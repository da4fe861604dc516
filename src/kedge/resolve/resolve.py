"""From a checked job file to a job whose names all mean something."""

from __future__ import annotations

import os
from functools import partial

from kedge.contract import Text
from kedge.errors import InputError, Problem
from kedge.resolve import secrets
from kedge.resolve.graph import ordered
from kedge.resolve.model import Image, Inputs, ResolvedJob, ResolvedRole
from kedge.resolve.scope import References, join
from kedge.resolve.steps import Findings, steps
from kedge.spec.model import Job, Path, Prerequisite, TaskRole
from kedge.spec.references import ROOTS

WORKDIR = "workdir"  # the name of the snapshot that --workdir makes


def resolve(job: Job, inputs: Inputs) -> ResolvedJob:
    """Render references, order prerequisites, find code. InputError names every problem, each with its position."""
    found = References(job, inputs)
    code = _Code(job, inputs)
    said = Findings(found.problems)
    roles = tuple(_role(job, role, found, code, said) for role in job.task_roles.values())
    problems = sorted({*found.problems, *code.problems}, key=lambda problem: (problem.line, problem.column))
    messages = [*code.messages, *found.unused()]
    if problems or messages:
        raise InputError(*problems, *messages)
    values = secrets.collect(job, inputs, found.secret_texts)
    return ResolvedJob(
        job=job,
        user=inputs.user,
        roles=roles,
        code=code.paths,
        rules=code.rules(inputs),
        secrets=values,
        inert=tuple(said.inert),
        notices=(*said.notices, *(secrets.unmasked(values) if job.kedge.mask else ())),
    )


def _role(job: Job, role: TaskRole, found: References, code: _Code, said: Findings) -> ResolvedRole:
    items = {kind: _item(job, kind, getattr(role, kind)) for kind in ("script", "output", "data")}
    render = partial(found.render, items=items, roots=ROOTS)
    image = _item(job, "dockerimage", role.docker_image)
    assert image is not None, role.docker_image  # the parser has checked it
    return ResolvedRole(
        role=role,
        image=_image(image, found),
        command=_command(job, role, render),
        steps=steps(job, role, ordered(job, role.prerequisites), render, said),
        code=code.of(items["script"]),
    )


def _item(job: Job, kind: str, name: str | None) -> Prerequisite | None:
    return next((item for item in job.prerequisites if item.type == kind and item.name == name), None)


def _image(item: Prerequisite, found: References) -> Image:
    auth = None
    if item.auth:
        values = {key: getattr(item.auth, key) for key in ("username", "password", "registryuri")}
        auth = {
            key: found.render(value, (*item.path, "auth", key), items={}, roots=("secrets",))
            for key, value in values.items()
            if value is not None
        }
    return Image(item.name, str(item.uri), auth)


def _command(job: Job, role: TaskRole, render: partial[Text]) -> Text:
    """All items in one shell: the active deployment's before, the role's, the deployment's after."""
    listed: list[tuple[Path, str]] = [
        (("taskRoles", role.name, "commands", n), command) for n, command in enumerate(role.commands)
    ]
    if job.active_deployment is not None:
        around = job.deployments[job.active_deployment].get(role.name)
        number = list(job.deployments).index(job.active_deployment)
        path: Path = ("deployments", number, "taskRoles", role.name)
        if around:
            before = [((*path, "preCommands", n), text) for n, text in enumerate(around.pre_commands)]
            after = [((*path, "postCommands", n), text) for n, text in enumerate(around.post_commands)]
            listed = [*before, *listed, *after]
    return _trimmed(join(part for path, text in listed for part in (*render(text.strip(), path), "\n")))


def _trimmed(text: Text) -> Text:
    parts = list(text)
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip()
    if parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip()
    return join(parts)


class _Code:
    """Which folders of this machine are copied for the job, by the name of their snapshot."""

    def __init__(self, job: Job, inputs: Inputs) -> None:
        self._job = job
        self._base = os.path.dirname(os.path.abspath(job.source.file))
        self.paths: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.messages: list[str] = []
        self._everywhere: str | None = None
        if inputs.workdir is not None:
            self._for_all(os.path.abspath(os.path.expanduser(inputs.workdir)), f"--workdir {inputs.workdir}")

    def of(self, script: Prerequisite | None) -> str | None:
        """The snapshot in which tasks with this script start; None for an empty folder per task."""
        if self._everywhere:
            return self._everywhere
        if script and isinstance(script.uri, str) and is_local(script.uri):
            self._add(script.name, script.uri, (*script.path, "uri"))
            return script.name
        if self._job.kedge.workdir is not None:
            self._add(WORKDIR, self._job.kedge.workdir, ("extras", "kedge", "workdir"))
            return WORKDIR
        return None

    def rules(self, inputs: Inputs) -> tuple[str, ...]:
        """Rule files: the job's, relative to its file, then the submitter's."""
        return (
            *(self._absolute(written) for written in self._job.kedge.rules),
            *(os.path.abspath(os.path.expanduser(path)) for path in inputs.rules),
        )

    def _absolute(self, written: str) -> str:
        return os.path.normpath(os.path.join(self._base, os.path.expanduser(written)))

    def _add(self, name: str, written: str, path: Path) -> None:
        full = self._absolute(written)
        if not os.path.exists(full):
            self.problems.append(self._job.source.problem(path, f"there is no file or folder {full}"))
        self.paths[name] = full

    def _for_all(self, full: str, option: str) -> None:
        if not os.path.isdir(full):
            self.messages.append(f"{option}: there is no folder {full}")
        self.paths[WORKDIR] = full
        self._everywhere = WORKDIR


def is_local(uri: str) -> bool:
    """Whether a script's uri is a path on this machine: absolute, in the home folder, or from `.` or `..`."""
    return uri in (".", "..") or uri.startswith(("./", "../", "/", "~/"))
