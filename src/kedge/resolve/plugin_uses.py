"""The uses of plugins in a job, by prerequisites and by entries of its runtime plugins, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from kedge.contract import Retry
from kedge.plugins.base import Parameter
from kedge.quick_dataclasses import dataclass
from kedge.resolve.items import Item
from kedge.spec.model import Job, JobFileSource, Path, TaskRole
from kedge.spec.units import seconds

# Keys that describe an item. Its plugin gets them only if it has a parameter of that name.
_ABOUT_THE_ITEM = frozenset({
    "name", "uri", "require", "retry", "timeoutSec", "template_variables", "requireStorages", "pathForUser", "version",
    "protocolVersion", "contributor", "description",
})  # fmt: skip
# Keys that are errors unless the plugin has such parameters. Any other key may serve `<% this.key %>`.
_HOOKS = frozenset({"callbacks", "preCommands", "postCommands"})
_MISTYPED = 0.8  # similarity, from 0 to 1, at which a key counts as a misspelled parameter


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a plugin. `written` has its parameters as in the file, and `place` gives the path of each; `strict`
    are those that the plugin must support. `path` is the path of the use itself."""

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

    def parameters_for(self, table: tuple[Parameter, ...] | None) -> dict[str, Any]:
        """The part of `written` to give to a plugin with these parameters; to one without a table, everything except
        keys that describe the item."""
        if table is None:
            about = _ABOUT_THE_ITEM - self.strict
            return {key: value for key, value in self.written.items() if key not in about}
        known = {parameter.name for parameter in table}
        free = [name.lower() for name in known - self.written.keys()]
        return {
            key: value
            for key, value in self.written.items()
            if key in known or key in self.strict or (key not in _ABOUT_THE_ITEM and _is_similar(key, free))
        }


def uses(job: Job, role: TaskRole, items: Iterable[Item]) -> Iterator[Use]:
    """All uses in a role, in start order: its resolved prerequisites in order, then the job's runtime plugins."""
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
        timeout_sec=seconds(item.data["timeoutSec"]) if "timeoutSec" in item.data else None,
    )


def _below(path: Path) -> Callable[[str], Path]:
    return lambda key: (*path, key)


def _retry(written: Mapping[str, Any]) -> Retry:
    return Retry(int(written.get("max", 0)), seconds(written.get("delaySec", 0)))


def _is_similar(key: str, names: list[str]) -> bool:
    import difflib  # slow to load, and needed only for a key that is not known

    return bool(difflib.get_close_matches(key.lower(), names, 1, _MISTYPED))
