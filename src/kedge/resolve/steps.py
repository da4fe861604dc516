"""Which prerequisites and runtime plugins run beside a role's command, in which order, with which callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kedge.contract import Step, Text
from kedge.errors import InputError
from kedge.resolve import plugins
from kedge.spec.model import Job, Path, Prerequisite, TaskRole

# Keys of an item that are about the item; everything else is a parameter of its plugin.
_NOT_PARAMETERS = frozenset({"plugin", "failurePolicy", "type"})
Render = Callable[[str, Path], Text]


def steps(job: Job, role: TaskRole, render: Render) -> tuple[Step, ...]:
    """The steps of a role, in start order: its prerequisites, dependencies first, then the job's runtime plugins."""
    return (*_of_prerequisites(job, role, render), *_of_plugins(job, role, render))


def _of_prerequisites(job: Job, role: TaskRole, render: Render) -> Iterator[Step]:
    for item in _ordered(job, role.prerequisites):
        name = item.plugin or ("cmd" if "callbacks" in item.data else "")
        parameters = {key: value for key, value in item.data.items() if key not in _NOT_PARAMETERS}
        policy = str(item.data.get("failurePolicy", "fail")).lower()
        yield from _step(item.name, name, parameters, policy, item.path, render)


def _of_plugins(job: Job, role: TaskRole, render: Render) -> Iterator[Step]:
    for entry in job.runtime_plugins:
        if entry.task_roles is None or role.name in entry.task_roles:
            path = (*entry.path, "parameters")
            yield from _step(entry.plugin, entry.plugin, entry.parameters, entry.failure_policy, path, render)


def _step(
    name: str, plugin: str, parameters: Mapping[str, Any], policy: str, path: Path, render: Render
) -> Iterator[Step]:
    found = plugins.find(plugin)
    callbacks = found.callbacks(_rendered(parameters, path, render)) if found else ()
    if callbacks:
        yield Step(name, callbacks, policy)


def _rendered(value: Any, path: Path, render: Render) -> Any:
    """The value with its references rendered, string by string. One that holds a secret becomes a Text."""
    if isinstance(value, Mapping):
        return {key: _rendered(below, (*path, key), render) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_rendered(below, (*path, index), render) for index, below in enumerate(value)]
    if not isinstance(value, str):
        return value
    text = render(value, path)
    return "".join(text) if all(isinstance(part, str) for part in text) else text  # type: ignore[arg-type]


def _ordered(job: Job, names: tuple[str, ...]) -> list[Prerequisite]:
    """The named items and all that they require, dependencies first, each once. InputError for a cycle."""
    ordered: dict[Path, Prerequisite] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        item = _named(job, name)
        if name in above:
            cycle = " -> ".join((*above[above.index(name) :], name))
            raise InputError(job.source.problem((*item.path, "require"), f"Prerequisite cycle: {cycle}"))
        if item.path not in ordered:
            for required in item.require:
                visit(required if isinstance(required, str) else required["name"], (*above, name))
            ordered[item.path] = item

    for name in names:
        visit(name, ())
    return list(ordered.values())


def _named(job: Job, name: str) -> Prerequisite:
    """Of items of the same name in different types, the one that does something."""
    items = [item for item in job.prerequisites if item.name == name]
    return next((item for item in items if item.plugin or "callbacks" in item.data), items[0])
