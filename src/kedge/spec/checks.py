"""What must hold in a job file beyond its shape: names that fit together, and values that exclude each other.

Every check takes the file's values as they are, whatever shape they have, and skips what the schema refuses anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from kedge.errors import Problem
from kedge.spec.item_checks import broken_tags, callbacks, check_item
from kedge.spec.message_text import MOST_PROBLEMS, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.names import NAME_CHECKS
from kedge.spec.plugins import RUNTIME_PLUGINS
from kedge.spec.references import Reference, TagError, Unresolved, locate, lookup, split
from kedge.spec.tolerant import entries, mapping, strings

Check = Callable[[Mapping[str, Any], JobFileSource], Iterator[Problem]]


def check(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Everything that is wrong with a job file beyond its shape and its names, at most 200 problems of a kind."""
    for find in _CHECKS:
        yield from islice(find(job, source), MOST_PROBLEMS)


def check_names(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Every name that is wrong, at most 200 of a kind."""
    for find in NAME_CHECKS:
        yield from islice(find(job, source), MOST_PROBLEMS)


def references(job: Mapping[str, Any], source: JobFileSource, given: Collection[str]) -> Iterator[Problem]:
    """References to what the file does not have and that was not `given` otherwise."""
    if mapping(mapping(job.get("extras")).get("kedge")).get("unknownReferences") == "keep":
        return
    supplied = {(name,) for name in given}
    for path, text in islice(_rendered(job), MOST_PROBLEMS):
        seen: Counter[str] = Counter()
        for part in _whole(text):
            is_given = part.root in ("parameters", "secrets") and part.path[:1] in supplied
            if not is_given and (why := _unresolved(part, path, job, source)):
                yield source.problem(path, why.message, mark=locate(source, path, part.source, seen[part.source]))
            seen[part.source] += 1


def _unresolved(part: Reference, path: Path, job: Mapping[str, Any], source: JobFileSource) -> Unresolved | None:
    """Why a reference at a path has no value; None also where that cannot be said because more is wrong."""
    if part.root in ("parameters", "secrets"):
        values: object = job.get(part.root)  # where there is none, its key may be mistyped
        found = lookup(part, values, source.marks, (part.root,)) if isinstance(values, dict) else None
    elif (name := _held(part.root, path, job)) == "":
        found = lookup(part, None, source.marks, ())
    else:
        named = (at for at, item in entries(job.get("prerequisites")) if _is(item, part.root, name))
        index = next(named, None)
        where: Path = ("prerequisites", index or 0)
        found = None if index is None else lookup(part, job["prerequisites"][index], source.marks, where)
    return found if isinstance(found, Unresolved) else None


def _held(root: str, path: Path, job: Mapping[str, Any]) -> str | None:
    """The name of the prerequisite behind `$script`, `$output` or `$data` at a path, empty if the role has none; None
    where that is not for one role to say."""
    at = {"taskRoles": 1, "deployments": 3}.get(str(path[0]))
    if at is None:
        return None
    role = mapping(mapping(job.get("taskRoles")).get(str(path[at])))
    name = role.get(root, "")
    return name if isinstance(name, str) else None


def _is(item: Mapping[str, Any], kind: str, name: str | None) -> bool:
    return item.get("type") == kind and item.get("name") == name


def _whole(text: str) -> list[Reference]:
    try:
        return [part for part in split(text) if isinstance(part, Reference)]
    except TagError:
        return []  # _tags tells it


def _items(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """What must hold in every prerequisite, and in the parameters of runtime plugins."""
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
    """Every `<%` in a text that is rendered later must belong to a whole tag."""
    for path, text in _rendered(job):
        yield from broken_tags(text, path, source)


def _rendered(job: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    roles = mapping(job.get("taskRoles"))
    for name, role in roles.items():
        yield from strings(mapping(role).get("commands"), ("taskRoles", name, "commands"))
    for index, deployment in entries(job.get("deployments")):
        yield from strings(deployment.get("taskRoles"), ("deployments", index, "taskRoles"))
    for index, item in entries(mapping(job.get("extras")).get(RUNTIME_PLUGINS)):
        yield from strings(item.get("parameters"), ("extras", RUNTIME_PLUGINS, index, "parameters"))


def _hived(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The HiveD settings of each role."""
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
    """All roles of an affinity group are placed together, so they ask for the same kind of cell."""
    first: dict[str, tuple[Any, Any]] = {}
    for path, role in _hived(job):
        group = role.get("affinityGroupName")
        if isinstance(group, str) and first.setdefault(group, _cell(role)) != _cell(role):
            message = f"the affinity group {quote(group)} mixes roles with different 'skuType' or 'pinnedCellId'"
            yield source.problem((*path, "affinityGroupName"), message)


def _completion(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """One policy for the whole job leaves nothing to say to its roles."""
    if "completion" not in mapping(mapping(job.get("extras")).get("kedge")):
        return
    for name, role in mapping(job.get("taskRoles")).items():
        if mapping(role).get("completion"):
            message = "'extras.kedge.completion' replaces the completion of all roles; remove one of the two"
            yield source.problem(("taskRoles", name, "completion"), message, key=True)


_CHECKS: tuple[Check, ...] = (_items, _tags, _completion, _hived_cells, _hived_groups)
