"""What a plugin is: something that turns its parameters into callbacks that run beside the user's command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kedge.contract import Callback

PREFIX = "com.microsoft.pai.runtimeplugin."


class Plugin(Protocol):
    """A plugin. The same parameters always give the same callbacks.

    Parameters arrive rendered, their shape checked by the schema. A string that holds a reference to a secret arrives
    as a `contract.Text` instead: its value is known only inside the task.
    """

    def callbacks(self, parameters: Mapping[str, Any]) -> tuple[Callback, ...]: ...


def short_name(plugin: str) -> str:
    """`com.microsoft.pai.runtimeplugin.cmd` and `cmd` are the same plugin."""
    return plugin.removeprefix(PREFIX)
