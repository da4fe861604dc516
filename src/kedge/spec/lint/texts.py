"""The strings of a job file in which references work, and those in which users may expect them to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.spec import environment
from kedge.spec.model import Path
from kedge.spec.plugins import RUNTIME_PLUGINS, handler
from kedge.spec.tolerant import entries, items, mapping, strings

_HOOKS = ("preCommands", "postCommands")
# Keys of a prerequisite that describe or name it; references do not work in them.
_DESCRIPTIVE = frozenset({"name", "type", "contributor", "description", "version", "protocolVersion"})
_FOR_PEOPLE = frozenset({"description", "contributor"})


def prerequisites(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every prerequisite in the file, with its path."""
    for index, item in entries(job.get("prerequisites")):
        yield ("prerequisites", index), item
    for index, item in entries(mapping(job.get("extras")).get("reference_prerequisites")):
        yield ("extras", "reference_prerequisites", index), item


def commands(job: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The shell lines of roles and deployments."""
    for name, role in mapping(job.get("taskRoles")).items():
        yield from strings(mapping(role).get("commands"), ("taskRoles", name, "commands"))
    for index, deployment in entries(job.get("deployments")):
        yield from strings(deployment.get("taskRoles"), ("deployments", index, "taskRoles"))


def hooks(job: Mapping[str, Any]) -> Iterator[tuple[Path, list[Any]]]:
    """The lists of shell lines for the cmd plugin; each list runs in one shell."""
    for path, item in prerequisites(job):
        if handler(item) == "cmd":
            yield from _hooks_of(item, path)
            yield from _hooks_of(mapping(item.get("plugin_params")), (*path, "plugin_params"))
    for index, entry in entries(mapping(job.get("extras")).get(RUNTIME_PLUGINS)):
        if handler({"plugin": entry.get("plugin")}) == "cmd":
            yield from _hooks_of(mapping(entry.get("parameters")), ("extras", RUNTIME_PLUGINS, index, "parameters"))


def _hooks_of(value: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, list[Any]]]:
    for key in _HOOKS:
        if lines := items(value.get(key)):
            yield (*path, key), lines
    for index, entry in entries(value.get("callbacks")):
        if lines := items(entry.get("commands")):
            yield (*path, "callbacks", index, "commands"), lines


def parameters(job: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The strings in the parameters of plugins, in images and in environment variables."""
    for path, item in prerequisites(job):
        for key, value in item.items():
            if key not in _DESCRIPTIVE:
                yield from strings(value, (*path, key))
    for index, entry in entries(mapping(job.get("extras")).get(RUNTIME_PLUGINS)):
        yield from strings(entry.get("parameters"), ("extras", RUNTIME_PLUGINS, index, "parameters"))
    for path, values in environment.mappings(job):
        yield from strings(values, path)


def others(job: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """All other strings, where no reference works, except descriptions and contributors."""
    working = {path for path, _ in (*commands(job), *parameters(job))}
    for path, text in strings({key: value for key, value in job.items() if key not in _FOR_PEOPLE}, ()):
        if path not in working and path[-1] not in _FOR_PEOPLE:
            yield path, text
