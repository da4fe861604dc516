"""A plugin that an installed package brings, under the entry point group `kedge.plugins`."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kedge.plugins.base import Parameter, ParameterError, Plugin, PluginFailed, Steps

GROUP = "kedge.plugins"


@cache
def installed() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of all plugins of installed packages, by name; read once in a process."""
    found: dict[str, dict[EntryPoint, None]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, {})[point] = None
    return {name: tuple(points) for name, points in found.items()}


class Installed:
    """The plugin behind an entry point. Whatever goes wrong in it is PluginFailed, in one line."""

    def __init__(self, points: tuple[EntryPoint, ...]) -> None:
        self._name = points[0].name
        self._package = " and ".join(sorted({point.dist.name if point.dist else "?" for point in points}))
        if len({point.value for point in points}) > 1:
            raise PluginFailed(f"several packages bring a plugin {self._name}: {self._package}; uninstall all but one")
        self._plugin = self._load(points[0])
        self.parameters = self._table()

    def steps(self, values: Mapping[str, Any]) -> Steps:
        try:
            steps = self._plugin.steps(values)
        except ParameterError:
            raise
        except Exception as error:  # code of others: its bug must not look like one of kedge
            raise self._failed("failed", error) from error
        if not isinstance(steps, Steps):
            raise PluginFailed(f"the plugin {self._name} ({self._package}) returned {type(steps).__name__}, no Steps")
        return steps

    def _load(self, point: EntryPoint) -> Plugin:
        try:
            loaded = point.load()
            made: Plugin = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:  # importing runs any code at all
            raise self._failed("cannot be loaded", error) from error
        return made

    def _table(self) -> tuple[Parameter, ...] | None:
        table = getattr(self._plugin, "parameters", ())
        if table is not None and not all(isinstance(parameter, Parameter) for parameter in table):
            raise PluginFailed(f"the plugin {self._name} ({self._package}) has parameters that are no Parameter")
        return table if table is None else tuple(table)

    def _failed(self, what: str, error: Exception) -> PluginFailed:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error}".partition("\n")[0] + f" ({place.filename}:{place.lineno})"
        return PluginFailed(f"the plugin {self._name} ({self._package}) {what}: {reason}")
