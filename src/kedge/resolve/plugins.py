"""Finding a plugin by its name: the built-in ones, those of installed packages, executables on PATH."""

from __future__ import annotations

import importlib
import os
import shutil

from kedge.plugins.base import Plugin, short_name
from kedge.resolve.executable import PREFIX, Executable
from kedge.resolve.installed import Installed, installed
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
