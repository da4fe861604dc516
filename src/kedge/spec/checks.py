"""Checks of a job file that the schema cannot express: names must match, and some values exclude each other.

Checks accept values of any shape and skip those that the schema rejects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from kedge.errors import Problem
from kedge.spec import environment
from kedge.spec.item_checks import broken_tags, callbacks, check_item
from kedge.spec.message_text import MAX_PROBLEMS, quote, show_path
from kedge.spec.model import JobFileSource, Path
from kedge.spec.names import NAME_CHECKS
from kedge.spec.plugins import RUNTIME_PLUGINS
from kedge.spec.references import Reference, TagError, Unresolved, locate, lookup, split
from kedge.spec.tolerant import entries, mapping, strings

Check = Callable[[Mapping[str, Any], JobFileSource], Iterator[Problem]]


def check(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """All problems of a job file other than schema violations and wrong names, at most 200 per check."""
    for find in _CHECKS:
        yield from islice(find(job, source), MAX_PROBLEMS)


def check_names(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """All problems with names in a job file, at most 200 per check."""
    for find in NAME_CHECKS:
        yield from islice(find(job, source), MAX_PROBLEMS)


def references(job: Mapping[str, Any], source: JobFileSource, given: Collection[str]) -> Iterator[Problem]:
    """Unresolvable references. The names in `given` are parameters and secrets with values from outside the file."""
    if mapping(mapping(job.get("extras")).get("kedge")).get("unknownReferences") == "keep":
        return
    supplied = {(name,) for name in given}
    for path, text in islice(_rendered_strings(job), MAX_PROBLEMS):
        seen: Counter[str] = Counter()
        for reference in _references_in(text):
            is_given = reference.root in ("parameters", "secrets") and (
                reference.path[:1] in supplied or show_path(reference.path) in given
            )
            if not is_given and (why := _unresolved(reference, path, job, source)):
                mark = locate(source, path, reference.source, seen[reference.source])
                yield source.problem(path, why.message, mark=mark)
            seen[reference.source] += 1


def _unresolved(reference: Reference, path: Path, job: Mapping[str, Any], source: JobFileSource) -> Unresolved | None:
    """Why the reference at a path has no value; None if it has one, or if other problems hide the answer."""
    root = reference.root
    if root in ("parameters", "secrets"):
        values: object = job.get(root)  # if it is missing, its key may be mistyped, which is reported elsewhere
        found = lookup(reference, values, source.marks, (root,)) if isinstance(values, dict) else None
    elif (name := _prerequisite_name(root, path, job)) == "":
        found = lookup(reference, None, source.marks, ())
    else:
        matching = (at for at, item in entries(job.get("prerequisites")) if _matches(item, root, name))
        index = next(matching, None)
        where: Path = ("prerequisites", index or 0)
        found = None if index is None else lookup(reference, job["prerequisites"][index], source.marks, where)
    return found if isinstance(found, Unresolved) else None


def _prerequisite_name(root: str, path: Path, job: Mapping[str, Any]) -> str | None:
    """The name of the prerequisite that `$script`, `$output` or `$data` means at a path; empty if the role has none;
    None if the path belongs to no role."""
    at = {"taskRoles": 1, "deployments": 3}.get(str(path[0]))
    if at is None:
        return None
    role = mapping(mapping(job.get("taskRoles")).get(str(path[at])))
    name = role.get(root, "")
    return name if isinstance(name, str) else None


def _matches(item: Mapping[str, Any], kind: str, name: str | None) -> bool:
    return item.get("type") == kind and item.get("name") == name


def _references_in(text: str) -> list[Reference]:
    try:
        return [part for part in split(text) if isinstance(part, Reference)]
    except TagError:
        return []  # reported by _tags


def _items(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Checks of every prerequisite, and of the parameters of runtime plugins."""
    for path, item in _all_items(job):
        yield from check_item(item, path, source)
    for index, entry in entries(mapping(job.get("extras")).get(RUNTIME_PLUGINS)):
        path = ("extras", RUNTIME_PLUGINS, index, "parameters")
        yield from callbacks(mapping(entry.get("parameters")), path, source)


def _all_items(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for index, item in entries(job.get("prerequisites")):
        yield ("prerequisites", index), item
    for index, item in entries(mapping(job.get("extras")).get("reference_prerequisites")):
        yield ("extras", "reference_prerequisites", index), item


def _tags(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Every `<%` in a string that is rendered later must belong to a complete tag."""
    for path, text in _rendered_strings(job):
        yield from broken_tags(text, path, source)


def _rendered_strings(job: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    roles = mapping(job.get("taskRoles"))
    for name, role in roles.items():
        yield from strings(mapping(role).get("commands"), ("taskRoles", name, "commands"))
    for index, deployment in entries(job.get("deployments")):
        yield from strings(deployment.get("taskRoles"), ("deployments", index, "taskRoles"))
    for index, item in entries(mapping(job.get("extras")).get(RUNTIME_PLUGINS)):
        yield from strings(item.get("parameters"), ("extras", RUNTIME_PLUGINS, index, "parameters"))
    for path, variables in environment.mappings(job):
        yield from strings(variables, path)


def _hived(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The path and HiveD settings of each role."""
    for key in ("hivedScheduler", "hivedscheduler"):
        roles = mapping(mapping(mapping(job.get("extras")).get(key)).get("taskRoles"))
        for name, role in roles.items():
            yield ("extras", key, "taskRoles", name), mapping(role)


def _cell(role: Mapping[str, Any]) -> tuple[Any, Any]:
    return role.get("skuType") or role.get("gpuType"), role.get("pinnedCellId") or role.get("reservationId")


def _hived_cells(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    extras = mapping(job.get("extras"))
    if "hivedScheduler" in extras and "hivedscheduler" in extras:
        message = "'hivedscheduler' is an older spelling of 'hivedScheduler'; keep one of the two"
        yield source.problem(("extras", "hivedscheduler"), message, key=True)
    for path, role in _hived(job):
        if all(_cell(role)):
            yield source.problem(path, "a role has either 'skuType' or 'pinnedCellId', not both", key=True)


def _hived_groups(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """All roles of an affinity group are placed together, so they must request the same kind of cell."""
    first: dict[str, tuple[Any, Any]] = {}
    for path, role in _hived(job):
        group = role.get("affinityGroupName")
        if isinstance(group, str) and first.setdefault(group, _cell(role)) != _cell(role):
            message = f"the affinity group {quote(group)} mixes roles with different 'skuType' or 'pinnedCellId'"
            yield source.problem((*path, "affinityGroupName"), message)


def _completion(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A completion policy for the whole job excludes policies of single roles."""
    if "completion" not in mapping(mapping(job.get("extras")).get("kedge")):
        return
    for name, role in mapping(job.get("taskRoles")).items():
        if mapping(role).get("completion"):
            message = "'extras.kedge.completion' replaces the completion of all roles; remove one of the two"
            yield source.problem(("taskRoles", name, "completion"), message, key=True)


_CHECKS: tuple[Check, ...] = (_items, _tags, _completion, environment.check, _hived_cells, _hived_groups)
