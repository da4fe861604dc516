"""Finding a plugin by its name: the built-in ones, those of installed packages, executables on PATH."""

from __future__ import annotations

import importlib
import os
import shutil
from typing import Any

from kedge.contract import Action, text_from_json
from kedge.plugins.base import ParameterError, Plugin, PluginFailed, Steps, read, short_name
from kedge.resolve.plugin_executable import PREFIX, Executable
from kedge.resolve.plugin_installed import Installed, installed
from kedge.spec.suggest import did_you_mean

# Known by a table, not by entry points: most jobs need no look at all installed packages, and no package can take the
# place of these.
BUILT_IN = {
    "cmd": "kedge.plugins.cmd:Cmd",
    "git": "kedge.plugins.git:Git",
    "download": "kedge.plugins.download:Download",
    "pvc_storage": "kedge.plugins.storage:PvcStorage",
    "com.microsoft.pai.rest.storage": "kedge.plugins.storage:RestStorage",
    "ssh": "kedge.plugins.inert:Ssh",
    "tensorboard": "kedge.plugins.inert:Tensorboard",
    "teamwise_storage": "kedge.plugins.inert:TeamwiseStorage",
}


class UnknownPlugin(LookupError):
    """There is no plugin of that name; the message says what to do."""


def find(name: str) -> Plugin:
    """The plugin of that name, in the short or the long spelling. UnknownPlugin, PluginFailed."""
    name = short_name(name)
    if place := BUILT_IN.get(name):
        module, _, cls = place.partition(":")
        made: Plugin = getattr(importlib.import_module(module), cls)()
        return made
    packages = installed()
    if points := packages.get(name):
        return Installed(points)
    if os.path.basename(name) == name and (path := shutil.which(PREFIX + name)):
        return Executable(name, path)
    hint = did_you_mean(name, [*BUILT_IN, *packages])
    raise UnknownPlugin(hint or f"; no installed package brings it, and no {PREFIX}{name} is on PATH")


def check_actions(steps: Steps) -> None:
    """PluginFailed for an action with parameters that the built-in plugin of its name would refuse. Those that only the
    runtime knows are left to it."""
    for callback in steps.callbacks:
        if callback.action:
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
    """{"text": [...]} stands for a string with secrets in it."""
    if isinstance(value, dict) and value.keys() == {"text"} and isinstance(value["text"], list | tuple):
        try:
            return text_from_json(list(value["text"]))
        except TypeError as error:
            raise PluginFailed(f"a text of an action holds what is neither a string nor a secret ({error})") from None
    return [_value(below) for below in value] if isinstance(value, list | tuple) else value
