"""What must hold in a job file beyond its shape: names that fit together, and values that exclude each other.

Every check takes the file's values as they are, whatever shape they have, and skips what the schema refuses anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from kedge.errors import Problem
from kedge.spec.model import Path, Source
from kedge.spec.names import NAME_CHECKS
from kedge.spec.plugins import RUNTIME_PLUGINS
from kedge.spec.references import OPEN, TagError, locate, split
from kedge.spec.shape import entries, mapping, strings
from kedge.spec.text import MOST_PROBLEMS, quote

# Keys that describe a prerequisite itself; in `plugin_params` they are something else.
_OF_THE_ITEM = frozenset({"name", "type", "plugin", "protocolVersion", "version", "contributor", "description"})

Check = Callable[[Mapping[str, Any], Source], Iterator[Problem]]


def check(job: Mapping[str, Any], source: Source) -> Iterator[Problem]:
    """Everything that is wrong with a job file beyond its shape, at most 200 problems of a kind."""
    for find in _CHECKS:
        yield from islice(find(job, source), MOST_PROBLEMS)


def _callbacks(job: Mapping[str, Any], source: Source) -> Iterator[Problem]:
    """`callbacks` is another way to say what `preCommands` and `postCommands` say."""
    for path, value in _hooks(job):
        both = [key for key in ("preCommands", "postCommands") if key in value]
        if "callbacks" in value and both:
            message = f"{quote(both[0])} does not go together with 'callbacks'; make it an event of the callbacks"
            yield source.problem((*path, both[0]), message, key=True)


def _hooks(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for index, item in entries(job.get("prerequisites")):
        path: Path = ("prerequisites", index)
        yield path, item
        yield (*path, "plugin_params"), mapping(item.get("plugin_params"))
    for index, item in entries(mapping(job.get("extras")).get(RUNTIME_PLUGINS)):
        yield ("extras", RUNTIME_PLUGINS, index, "parameters"), mapping(item.get("parameters"))


def _plugin_params(job: Mapping[str, Any], source: Source) -> Iterator[Problem]:
    """A parameter may stand inline or in `plugin_params`; in both places only with one value."""
    for index, item in entries(job.get("prerequisites")):
        for key, value in mapping(item.get("plugin_params")).items():
            if key in item and item[key] != value and key not in _OF_THE_ITEM:
                path: Path = ("prerequisites", index, "plugin_params", key)
                message = f"{quote(key)} has another value beside 'plugin_params'; keep one of the two"
                yield source.problem(path, message, key=True)


def _tags(job: Mapping[str, Any], source: Source) -> Iterator[Problem]:
    """Every `<%` in a text that is rendered later must belong to a whole tag."""
    for path, text in _rendered(job):
        if OPEN not in text:
            continue
        try:
            split(text)
        except TagError as error:
            nth = text.count(OPEN, 0, error.offset)
            yield source.problem(path, error.message, mark=locate(source, path, OPEN, nth))


def _rendered(job: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    roles = mapping(job.get("taskRoles"))
    for name, role in roles.items():
        yield from strings(mapping(role).get("commands"), ("taskRoles", name, "commands"))
    for index, deployment in entries(job.get("deployments")):
        yield from strings(deployment.get("taskRoles"), ("deployments", index, "taskRoles"))
    for index, item in entries(job.get("prerequisites")):
        told = {key: value for key, value in item.items() if key not in ("name", "contributor", "description")}
        yield from strings(told, ("prerequisites", index))
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


def _hived_cells(job: Mapping[str, Any], source: Source) -> Iterator[Problem]:
    extras = mapping(job.get("extras"))
    if "hivedScheduler" in extras and "hivedscheduler" in extras:
        message = "'hivedscheduler' is an older spelling of 'hivedScheduler'; keep one of the two"
        yield source.problem(("extras", "hivedscheduler"), message, key=True)
    for path, role in _hived(job):
        if all(_cell(role)):
            yield source.problem(path, "a role has either 'skuType' or 'pinnedCellId', not both", key=True)


def _hived_groups(job: Mapping[str, Any], source: Source) -> Iterator[Problem]:
    """All roles of an affinity group are placed together, so they ask for the same kind of cell."""
    first: dict[str, tuple[Any, Any]] = {}
    for path, role in _hived(job):
        group = role.get("affinityGroupName")
        if isinstance(group, str) and first.setdefault(group, _cell(role)) != _cell(role):
            message = f"the affinity group {quote(group)} mixes roles with different 'skuType' or 'pinnedCellId'"
            yield source.problem((*path, "affinityGroupName"), message)


_CHECKS: tuple[Check, ...] = (*NAME_CHECKS, _callbacks, _plugin_params, _tags, _hived_cells, _hived_groups)
