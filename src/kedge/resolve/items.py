"""A prerequisite on its way through resolve: what it says, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kedge.spec.model import JobFileSource, Path
from kedge.spec.plugins import handler

# Keys of an item that are about the item; everything else is a parameter of its plugin.
_NOT_PARAMETERS = frozenset({"plugin", "failurePolicy", "type", "plugin_params"})


@dataclass(frozen=True, slots=True)
class Item:
    """One prerequisite. `data` is its whole mapping, which stands at `path` in the file behind `source`."""

    name: str
    data: Mapping[str, Any]
    source: JobFileSource = field(repr=False)
    path: Path

    @property
    def plugin(self) -> str | None:
        """The short name of the plugin that acts on it; None if it only holds values."""
        return handler(self.data)

    @property
    def parameters(self) -> dict[str, Any]:
        """What its plugin is told: `plugin_params` over the keys of the item itself."""
        own = {key: value for key, value in self.data.items() if key not in _NOT_PARAMETERS}
        return own | dict(self.data.get("plugin_params") or {})

    def place(self, key: str) -> Path:
        """Where the parameter `key` stands in the file."""
        inner = (*self.path, "plugin_params", key)
        return inner if key in (self.data.get("plugin_params") or {}) else (*self.path, key)
