"""Finds parameters, secrets and prerequisites that a job defines but does not use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from kedge.errors import Problem
from kedge.spec.marks import node_at
from kedge.spec.message_text import bare, quote
from kedge.spec.model import Job, Path, Prerequisite
from kedge.spec.references import Reference, TagError, split
from kedge.spec.tolerant import mapping, strings
from kedge.spec.yaml_escapes import LATER

_MAX_DEPTH = 100  # items; longer cycles are found when something uses them
_ROLE_KEYS = {"docker_image": "dockerimage", "data": "data", "output": "output", "script": "script"}


def values(job: Job, used: Collection[tuple[str, str]]) -> Iterator[Problem]:
    """A warning for each parameter and secret that is neither referred to in the file nor among those `used` by
    prerequisites outside it (as root and name)."""
    known = {*used, *_referred_to(node_at(job.source, ()).value)}
    for root, defined in (("parameters", job.parameters), ("secrets", job.secrets)):
        for name in defined:
            if (root, name) not in known and (root, "") not in known:
                yield job.source.warning((root, name), _unused(root, name), key=True)


def _unused(root: str, name: str) -> str:
    what, reference = root.removesuffix("s"), f"<% ${root}.{bare(name)} %>"
    if (root, name) not in _referred_to(reference):
        return f"this {what} is not used, and no reference can contain its name; rename it, or remove it"
    return f"this {what} is not used; refer to it as {reference}, or remove it"


def _referred_to(document: object) -> Iterator[tuple[str, str]]:
    """Root and first name of every reference; an empty name if a reference is broken or has only a root."""
    for _, text in strings(document, ()):
        try:
            parts = split(text) if "$" in text else ()
        except TagError:
            yield from (("parameters", ""), ("secrets", ""))
            continue
        for part in parts:
            if isinstance(part, Reference):
                yield part.root, str(part.path[0]) if part.path else ""


def prerequisites(job: Job, needed: Collection[Path]) -> list[Problem]:
    """A warning for each item that no role uses and that is not among those `needed` (paths in the job file). If such
    items form cycles, an error for each cycle instead, because no other check would find it."""
    unused = [item for item in (*job.prerequisites, *job.references) if item.path not in needed]
    named = {(key, getattr(role, field)) for role in job.task_roles.values() for field, key in _ROLE_KEYS.items()}
    unused = [item for item in unused if (item.type, item.name) not in named]
    if cycles := list(_cycles(unused, job)):
        return cycles
    return [job.source.warning(item.path, f"no task role uses {quote(item.name)}") for item in unused]


def _cycles(items: Iterable[Prerequisite], job: Job) -> Iterator[Problem]:
    by_name = {item.name: item for item in items}
    done: set[str] = set()

    def visit(item: Prerequisite, above: tuple[str, ...]) -> Iterator[Problem]:
        done.add(item.name)
        chain = (*above, item.name)
        for index, name in _required(item):
            if name in chain:
                shown = " -> ".join(bare(step) for step in (*chain[chain.index(name) :], name))
                yield job.source.problem((*item.path, "require", index), f"Prerequisite cycle: {shown}")
            elif name in by_name and name not in done and len(chain) < _MAX_DEPTH:
                yield from visit(by_name[name], chain)

    for item in by_name.values():
        if item.name not in done:
            yield from visit(item, ())


def _required(item: Prerequisite) -> Iterator[tuple[int, str]]:
    """The plain names in `require`, each with its index."""
    for index, entry in enumerate(item.require):
        name = mapping(entry).get("name") if isinstance(entry, Mapping) else entry
        if isinstance(name, str) and not LATER.search(name):
            yield index, name
