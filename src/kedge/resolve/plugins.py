"""The plugins that kedge acts on, by their short name; loaded when a job uses them."""

from __future__ import annotations

import importlib

from kedge.plugins.base import Plugin, short_name

PLUGINS = {"cmd": "kedge.plugins.cmd:Cmd"}


def find(plugin: str) -> Plugin | None:
    """The plugin of that name, in the short or the long spelling; None for one that kedge does not act on."""
    if (place := PLUGINS.get(short_name(plugin))) is None:
        return None
    module, _, name = place.partition(":")
    made: Plugin = getattr(importlib.import_module(module), name)()
    return made
