"""Finds a plugin by name: built-in, from an installed package, or an executable on PATH."""

from __future__ import annotations

import importlib
from typing import Any

from kedge.contract import SSH_BARRIER, SSH_SERVER, Action, text_from_json
from kedge.lazy_modules import PLUGINS, load_place
from kedge.plugins.base import ParameterError, Plugin, PluginFailed, Steps, read, short_name


class UnknownPlugin(LookupError):
    """There is no plugin with this name; the message continues "… is not supported" with what to do."""


def find(name: str) -> Plugin:
    """The plugin with this short or long name. UnknownPlugin: there is none; PluginFailed: it cannot be loaded."""
    name = short_name(name)
    if name in PLUGINS:
        plugin: Plugin = load_place(PLUGINS[name])()
        return plugin
    found: Plugin = importlib.import_module("kedge.resolve.plugins_of_others").find(name)  # slow to import
    return found


def check_actions(steps: Steps) -> None:
    """Raises PluginFailed for an action with parameters that the built-in plugin of the same name rejects. Parameters
    that only the runtime knows are not checked."""
    for callback in steps.callbacks:
        if callback.action and callback.action.kind not in (SSH_SERVER, SSH_BARRIER):
            _check_action(callback.action)


def _check_action(action: Action) -> None:
    plugin = find(action.kind)
    table = plugin.parameters or ()
    known = {parameter.name for parameter in table}
    written = {name: _value(value) for name, value in action.parameters.items() if name in known}
    if "uris" in action.parameters:
        written["uri"] = _value(action.parameters["uris"])
    try:
        plugin.steps(read(table, written))
    except ParameterError as error:
        wrong = error.wrong[0]
        place = ".".join(map(str, wrong.path))
        raise PluginFailed(f"the action {action.kind}: {place}{': ' if place else ''}{wrong.message}") from None


def _value(value: Any) -> Any:
    """The value with every {"text": [...]} replaced by the string with secrets that it encodes."""
    if isinstance(value, dict) and value.keys() == {"text"} and isinstance(value["text"], list | tuple):
        try:
            return text_from_json(list(value["text"]))
        except TypeError as error:
            raise PluginFailed(f"a text of an action has a part that is not a string or secret ({error})") from None
    return [_value(below) for below in value] if isinstance(value, list | tuple) else value
