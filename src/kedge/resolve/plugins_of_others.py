"""Finds a plugin that is not built in: of an installed package, or an executable on PATH. Slow: it reads the metadata
of all packages."""

from __future__ import annotations

import os
import shutil

from kedge.lazy_modules import PLUGINS
from kedge.plugins.base import Plugin
from kedge.resolve.plugin_executable import PREFIX, Executable
from kedge.resolve.plugin_installed import Installed, installed
from kedge.resolve.plugins import UnknownPlugin
from kedge.spec.suggest import did_you_mean


def find(name: str) -> Plugin:
    """The plugin with this name. UnknownPlugin: there is none; PluginFailed: it cannot be loaded."""
    packages = installed()
    if points := packages.get(name):
        return Installed(points)
    if os.path.basename(name) == name and (path := shutil.which(PREFIX + name)):
        return Executable(name, path)
    hint = did_you_mean(name, [*PLUGINS, *packages])
    raise UnknownPlugin(hint or f"; no installed package has it, and no {PREFIX}{name} is on PATH")
