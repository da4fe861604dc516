"""Resolves all names in a checked job file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath

from kedge.contract import Text, join_text, show_text
from kedge.errors import ERROR, UNKNOWN, InputError, Problem, Unreachable, in_order
from kedge.resolve import document_cache, environment, given_environment, pins, secrets, storages, unused
from kedge.resolve.code import CodeFolders
from kedge.resolve.document_store import ALL, DocumentStore, Settings, is_url
from kedge.resolve.graph import Graph, Needed, ordered
from kedge.resolve.items import Item
from kedge.resolve.lock_file import Repository
from kedge.resolve.lookup import Lookup
from kedge.resolve.model import Inputs, LockState, RequirementEntry, Requirements, ResolvedJob, ResolvedRole, RoleImage
from kedge.resolve.scope import References
from kedge.resolve.steps import Findings, steps
from kedge.spec.model import Job, Path, Prerequisite, TaskRole
from kedge.spec.references import ROOTS, SPACE


def resolve(job: Job, inputs: Inputs, problems: Iterable[Problem] = ()) -> ResolvedJob:
    """Find prerequisites, render references, build steps, locate code. `problems` are those already known.

    InputError: lists every problem with its position, including the known ones. Unreachable: the only problems are
    documents that could not be fetched from other machines.
    """
    offline = inputs.offline or inputs.record is not None
    with DocumentStore(_settings(job, inputs), _cache(inputs), offline, inputs.update_lock) as store:
        return _Resolution(job, inputs, store, problems).result()


def _settings(job: Job, inputs: Inputs) -> Settings:
    where = inputs.marketplace
    if where is None and job.kedge.marketplace is not None:
        where = job.kedge.marketplace
        if not is_url(where) and where not in inputs.marketplaces:
            where = os.path.normpath(os.path.join(os.path.dirname(job.source.file), os.path.expanduser(where)))
    where = where or inputs.usual_marketplace
    base = inputs.marketplaces.get(where, where) if where else None
    return Settings(job.source.file, inputs.user, base, inputs.hosts, inputs.record)


def _cache(inputs: Inputs) -> document_cache.DocumentCache:
    folder = inputs.record.documents if inputs.record else inputs.cache
    return document_cache.DocumentCache(FilePath(folder) if folder else document_cache.default_folder(os.environ))


class _Resolution:
    """The resolution of one job: the results so far, and the problems found."""

    def __init__(self, job: Job, inputs: Inputs, store: DocumentStore, problems: Iterable[Problem]) -> None:
        self._job = job
        self._inputs = inputs
        self._store = store
        self._references = References(job, inputs)
        self._problems = self._references.problems
        self._problems += problems
        self._code = CodeFolders(job, inputs)
        self._findings = Findings(self._problems)
        self._taken = {given_environment.reference(name).key: value for name, value in inputs.taken_env.items()}
        self._references.secret_texts.update(self._taken)
        parameters = partial(self._references.render, items={}, roots=("parameters",))
        self._graph = Graph(Lookup(job, store), parameters, self._problems)
        self._repositories: list[Repository] = []
        self._images: dict[str, RoleImage] = {}
        self._messages: list[str] = []

    def result(self) -> ResolvedJob:
        job, inputs = self._job, self._inputs
        roles = job.task_roles.values()
        needed = {role.name: self._graph.of_role(role.name, role.prerequisites, job.source) for role in roles}
        resolved = tuple(self._role(role, needed[role.name]) for role in roles)
        everything = ordered(one for listed in needed.values() for one in listed)
        wanted = list(self._storages(everything))
        mounts, wrong, nested = storages.merge(wanted, inputs.storage_names, inputs.storages)
        self._messages = storages.unrequested(inputs.storages, wanted)
        idle = unused.prerequisites(job, self._graph.used)
        self._refuse((*self._problems, *self._code.problems, *wrong, *(p for p in idle if p.severity == ERROR)))
        values = secrets.collect(job, inputs, self._references.secret_texts)
        unmasked = secrets.unmasked(values) if job.kedge.mask else ()
        return ResolvedJob(
            job=job,
            user=inputs.user,
            roles=resolved,
            code=self._code.paths,
            rules=self._code.rules(inputs),
            secrets=values,
            lock=LockState(
                self._store.lock_file, self._store.old, self._store.lock, tuple(self._repositories), self._to_pin()
            ),
            inert=tuple(self._findings.inert),
            notes=(*inputs.notes, *self._store.notes, *self._findings.notes, *nested, *unmasked),
            mounts=mounts,
            requirements=self._requirements(everything, needed),
            warnings=tuple(in_order([*job.warnings, *idle, *unused.values(job, self._references.used)])),
            documents=self._store.documents,
            needed_secrets=tuple(sorted(self._references.secret_texts.keys() - self._taken.keys())),
        )

    def _role(self, role: TaskRole, needed: tuple[Needed, ...]) -> ResolvedRole:
        named = {kind: self._named_item(kind, getattr(role, kind)) for kind in ("script", "output", "data")}
        # Undefined names are already reported; skip references through them.
        roots = [root for root in ROOTS if named.get(root) or not getattr(role, root, None)]
        render = partial(self._references.render, items=named, roots=roots)
        image = _item(self._job, "dockerimage", role.docker_image)
        items = [one.item for one in ordered(needed)]
        role_steps = steps(self._job, role, items, render, self._findings)
        command, lines = _command(self._job, role, render)
        self._repositories += pins.repositories(role_steps)
        return ResolvedRole(
            role=_with_ports(role, self._findings.ports.get(role.name, ())),
            image=self._image(image) if image else RoleImage(role.docker_image, "", None),
            command=command,
            lines=lines,
            steps=pins.pinned(role_steps, self._store.old),
            code=self._code.of(named["script"]),
            env=self._environment(role, render),
            outputs=_outputs(filter(None, (named["output"], *items))),
        )

    def _environment(self, role: TaskRole, render: partial[Text]) -> dict[str, Text]:
        given = given_environment.texts(self._inputs.env, self._inputs.taken_env)
        found = environment.of_role(self._job, role.name, render) | given
        self._problems += environment.problems(self._job, role.name, found, self._references.secret_texts)
        return found

    def _image(self, item: Prerequisite) -> RoleImage:
        image = _image(item, self._references)
        self._images[image.uri] = image
        return replace(image, pin=pins.image_pin(image, self._store.old))

    def _to_pin(self) -> tuple[str, ...]:
        """The images that --update-lock allows to change."""
        named = set(self._inputs.update_lock)
        return tuple(uri for uri, image in self._images.items() if named & {ALL, *pins.image_names(image)})

    def _named_item(self, kind: str, name: str | None) -> Item | None:
        item = _item(self._job, kind, name)
        return self._graph.alone(item) if item else None

    def _storages(self, everything: Iterable[Needed]) -> Iterable[storages.StorageRequest]:
        names = self._inputs.storage_names
        yield from storages.of_job(self._job, self._findings, names.defaults if names else ())
        for item in (one.item for one in everything):
            where = (*item.path, "requireStorages")
            yield from storages.requests(item.data.get("requireStorages"), item.source, where)
        yield from storages.of_plugins(self._findings)

    def _requirements(self, everything: list[Needed], needed: dict[str, tuple[Needed, ...]]) -> Requirements:
        render = partial(self._references.render, items={}, roots=("parameters",))
        numbers = {id(one): number for number, one in enumerate(everything)}

        def numbers_of(some: Iterable[Needed]) -> tuple[int, ...]:
            return tuple(dict.fromkeys(numbers[id(one)] for one in some if id(one) in numbers))

        entries = tuple(
            RequirementEntry(
                name=one.item.name,
                type=str(one.item.data.get("type", "")),
                plugin=one.item.plugin,
                reference=one.reference,
                origin=one.origin,
                version=one.version,
                values={name: show_text(render(value.text, one.item.path)) for name, value in one.values.items()},
                needs=numbers_of(one.needs),
            )
            for one in everything
        )
        return Requirements(entries, {role: numbers_of(listed) for role, listed in needed.items()})

    def _refuse(self, problems: Iterable[Problem]) -> None:
        """Raise an error with all problems, each once, in the order of the file; return if there are none."""
        unique = in_order(problems)
        images = {name for image in self._images.values() for name in pins.image_names(image)}
        wrong = given_environment.wrong(self._inputs.env, self._inputs.taken_env)
        messages = [
            *self._code.messages,
            *self._references.unused(),
            *wrong,
            *self._messages,
            *([] if unique else self._store.unused(images)),
        ]
        if unique and not messages and all(problem.code == UNKNOWN for problem in unique):
            raise Unreachable(*unique)
        if unique or messages:
            raise InputError(*in_order([*unique, *self._job.warnings]), *messages)


def _with_ports(role: TaskRole, labels: Iterable[str]) -> TaskRole:
    """The role with a port for each label that has none yet."""
    ports = dict.fromkeys(labels, 1) | dict(role.resources.ports)
    return replace(role, resources=replace(role.resources, ports=ports))


def _item(job: Job, kind: str, name: str | None) -> Prerequisite | None:
    return next((item for item in job.prerequisites if item.type == kind and item.name == name), None)


def _outputs(items: Iterable[Item]) -> tuple[str, ...]:
    """The names of the items of type `output` that no plugin acts on."""
    return tuple(dict.fromkeys(item.name for item in items if item.data.get("type") == "output" and not item.plugin))


def _image(item: Prerequisite, references: References) -> RoleImage:
    auth = None
    if item.auth:
        values = {key: getattr(item.auth, key) for key in ("username", "password", "registryuri")}
        auth = {
            key: references.render(value, (*item.path, "auth", key), items={}, roots=("secrets",))
            for key, value in values.items()
            if value is not None
        }
    uri = references.render(str(item.uri), (*item.path, "uri"), items={}, roots=("parameters",))
    return RoleImage(item.name, show_text(uri), auth)


def _command(job: Job, role: TaskRole, render: partial[Text]) -> tuple[Text, tuple[int, ...]]:
    """The commands of a role as one script, between those of the active deployment, and the job file's line number for
    each line of the script."""
    listed: list[tuple[Path, str]] = [
        (("taskRoles", role.name, "commands", n), command) for n, command in enumerate(role.commands)
    ]
    for number, (name, deployment) in enumerate(job.deployments.items()):
        path: Path = ("deployments", number, "taskRoles", role.name)
        if name == job.active_deployment and (around := deployment.get(role.name)):
            before = [((*path, "preCommands", n), text) for n, text in enumerate(around.pre_commands)]
            after = [((*path, "postCommands", n), text) for n, text in enumerate(around.post_commands)]
            listed = [*before, *listed, *after]
    listed = [(path, text.strip(SPACE)) for path, text in listed if text.strip(SPACE)]
    texts = [render(text, path) for path, text in listed]
    pairs = zip(listed, texts, strict=True)
    lines = [line for (path, text), rendered in pairs for line in _lines(job, path, text, rendered)]
    return _trimmed(join_text(part for text in texts for part in (*text, "\n"))), tuple(lines)


def _lines(job: Job, path: Path, text: str, rendered: Text) -> Iterator[int]:
    """The job file's line number for each line of a command; the first one for all if a value spans lines."""
    written, mark, file = text.split("\n"), job.source.mark(path), job.source.text
    count = 1 + sum(part.count("\n") for part in rendered if isinstance(part, str))
    if count != len(written):
        written = [""] * count
    line, done = mark.line, mark.offset
    for content in map(str.strip, written):
        place = file.find(content, done, mark.end)
        if content and place >= 0:
            line, done = line + file.count("\n", done, place), place
        yield line


def _trimmed(text: Text) -> Text:
    parts = list(text)
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip(SPACE)
    if parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip(SPACE)
    return join_text(parts)
