"""A prerequisite while it is being resolved: its values and its place in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kedge.quick_dataclasses import dataclass
from kedge.spec.model import JobFileSource, Path
from kedge.spec.plugins import handler

# Keys that concern the item itself; all others are parameters of its plugin.
_NOT_PARAMETERS = frozenset({"plugin", "failurePolicy", "type", "plugin_params"})


@dataclass(frozen=True, slots=True)
class Item:
    """One prerequisite. `data` is its whole mapping, at `path` in the file behind `source`."""

    name: str
    data: Mapping[str, Any]
    source: JobFileSource = field(repr=False)
    path: Path

    @property
    def plugin(self) -> str | None:
        """The short name of the plugin that handles it; None if it only holds values."""
        return handler(self.data)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of its plugin: the item's own keys, overridden by `plugin_params`."""
        inline = {key: value for key, value in self.data.items() if key not in _NOT_PARAMETERS}
        return inline | dict(self.data.get("plugin_params") or {})

    def place(self, key: str) -> Path:
        """The path of the parameter `key` in the file."""
        inner = (*self.path, "plugin_params", key)
        return inner if key in (self.data.get("plugin_params") or {}) else (*self.path, key)
