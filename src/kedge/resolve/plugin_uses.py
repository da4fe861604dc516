"""Who uses which plugin, and with what: a prerequisite, or an entry of the job's runtime plugins."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kedge.contract import Retry
from kedge.plugins.base import Parameter
from kedge.resolve.items import Item
from kedge.spec.model import Job, JobFileSource, Path, TaskRole

# Keys that say something about an item. Its plugin gets them only if it has a parameter of that name.
_ABOUT_THE_ITEM = frozenset({
    "name", "uri", "require", "retry", "timeoutSec", "template_variables", "requireStorages", "pathForUser", "version",
    "protocolVersion", "contributor", "description",
})  # fmt: skip
# Keys that make no sense unless the plugin takes them. Any other key may be there for `<% this.key %>`.
_HOOKS = frozenset({"callbacks", "preCommands", "postCommands"})
_TYPING_MISTAKE = 0.8  # how much a key must be like a parameter to be taken for a mistyped one, from 0 to 1


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a plugin. `written` are its parameters as in the file, `place` says where each stands; `strict` are
    those that the plugin must know. `path` is where the use itself stands."""

    name: str
    plugin: str
    written: Mapping[str, Any]
    strict: frozenset[str]
    source: JobFileSource = field(repr=False)
    path: Path
    place: Callable[[str], Path] = field(repr=False)
    policy: str
    retry: Retry
    timeout_sec: float | None

    def told(self, table: tuple[Parameter, ...] | None) -> dict[str, Any]:
        """What of `written` is for a plugin with these parameters; for one without a table, all but what describes the
        item."""
        if table is None:
            about = _ABOUT_THE_ITEM - self.strict
            return {key: value for key, value in self.written.items() if key not in about}
        known = {parameter.name for parameter in table}
        free = [name.lower() for name in known - self.written.keys()]
        return {
            key: value
            for key, value in self.written.items()
            if key in known or key in self.strict or (key not in _ABOUT_THE_ITEM and _like(key, free))
        }


def uses(job: Job, role: TaskRole, items: Iterable[Item]) -> Iterator[Use]:
    """All uses in a role, in start order: its resolved prerequisites as listed, then the job's runtime plugins."""
    for item in items:
        if item.plugin is not None:
            yield _by_item(item, item.plugin)
    for entry in job.runtime_plugins:
        if entry.task_roles is None or role.name in entry.task_roles:
            yield Use(
                name=entry.plugin,
                plugin=entry.plugin,
                written=entry.parameters,
                strict=frozenset(entry.parameters),
                source=job.source,
                path=entry.path,
                place=_below((*entry.path, "parameters")),
                policy=entry.failure_policy,
                retry=_retry(entry.retry),
                timeout_sec=entry.timeout_sec,
            )


def _by_item(item: Item, plugin: str) -> Use:
    return Use(
        name=item.name,
        plugin=plugin,
        written=item.parameters,
        strict=_HOOKS | frozenset(item.data.get("plugin_params") or ()),
        source=item.source,
        path=item.path,
        place=item.place,
        policy=str(item.data.get("failurePolicy", "fail")).lower(),
        retry=_retry(item.data.get("retry") or {}),
        timeout_sec=item.data.get("timeoutSec"),
    )


def _below(path: Path) -> Callable[[str], Path]:
    return lambda key: (*path, key)


def _retry(written: Mapping[str, Any]) -> Retry:
    return Retry(int(written.get("max", 0)), float(written.get("delaySec", 0)))


def _like(key: str, names: list[str]) -> bool:
    return bool(difflib.get_close_matches(key.lower(), names, 1, _TYPING_MISTAKE))
