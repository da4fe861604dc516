"""The names of plugins in job files."""

from __future__ import annotations

from kedge.light.types import Any, Mapping

RUNTIME_PLUGINS = "com.microsoft.pai.runtimeplugin"  # the key in `extras`, and the prefix of long names

_CMD_KEYS = ("callbacks", "preCommands", "postCommands", "plugin_params")  # these keys imply the plugin cmd


def short_name(plugin: str) -> str:
    """A runtime plugin's name without its prefix: `com.microsoft.pai.runtimeplugin.cmd` is `cmd`."""
    return plugin.removeprefix(RUNTIME_PLUGINS + ".")


def handler(prerequisite: Mapping[str, Any]) -> str | None:
    """The short name of the plugin that acts on a prerequisite; None if it only holds values."""
    if prerequisite.get("type") == "dockerimage":
        return None
    plugin = prerequisite.get("plugin")
    if isinstance(plugin, str):
        return short_name(plugin)
    if any(key in prerequisite for key in _CMD_KEYS):
        return "cmd"
    downloads = prerequisite.get("type") == "data" and ("sha256" in prerequisite or "path" in prerequisite)
    return "download" if downloads and "uri" in prerequisite else None
