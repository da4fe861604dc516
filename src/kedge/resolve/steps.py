"""Which prerequisites and runtime plugins run beside a role's command, in which order, with which callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kedge.contract import Step, Text
from kedge.resolve import plugins
from kedge.resolve.items import Item
from kedge.spec.model import Job, Path, Source, TaskRole

Render = Callable[[str, Path, Source], Text]  # a text, and where it stands in which file


def steps(job: Job, role: TaskRole, items: Iterable[Item], render: Render) -> tuple[Step, ...]:
    """The steps of a role, in start order: its resolved prerequisites as listed, then the job's runtime plugins."""
    return (*_of_prerequisites(items, render), *_of_plugins(job, role, render))


def _of_prerequisites(items: Iterable[Item], render: Render) -> Iterator[Step]:
    for item in items:
        if item.plugin is None:
            continue
        here = _at(render, item.source)
        parameters = {key: _rendered(value, item.place(key), here) for key, value in item.parameters.items()}
        policy = str(item.data.get("failurePolicy", "fail")).lower()
        yield from _step(item.name, item.plugin, parameters, policy)


def _of_plugins(job: Job, role: TaskRole, render: Render) -> Iterator[Step]:
    here = _at(render, job.source)
    for entry in job.runtime_plugins:
        if entry.task_roles is None or role.name in entry.task_roles:
            parameters = _rendered(entry.parameters, (*entry.path, "parameters"), here)
            yield from _step(entry.plugin, entry.plugin, parameters, entry.failure_policy)


def _step(name: str, plugin: str, parameters: Mapping[str, Any], policy: str) -> Iterator[Step]:
    found = plugins.find(plugin)
    callbacks = found.callbacks(parameters) if found else ()
    if callbacks:
        yield Step(name, callbacks, policy)


def _at(render: Render, source: Source) -> Callable[[str, Path], Text]:
    return lambda text, path: render(text, path, source)


def _rendered(value: Any, path: Path, render: Callable[[str, Path], Text]) -> Any:
    """The value with its references rendered, string by string. One that holds a secret becomes a Text."""
    if isinstance(value, Mapping):
        return {key: _rendered(below, (*path, key), render) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_rendered(below, (*path, index), render) for index, below in enumerate(value)]
    if not isinstance(value, str):
        return value
    text = render(value, path)
    return "".join(text) if all(isinstance(part, str) for part in text) else text  # type: ignore[arg-type]
