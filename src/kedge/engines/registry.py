"""The engines by their names, loaded one by one."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from kedge.engines.base import Engine
from kedge.errors import InputError

ENGINES = {
    "local": "kedge.engines.local.engine:LocalEngine",
    "container": "kedge.engines.container.engine:ContainerEngine",
}


def load(name: str) -> Callable[..., Engine]:
    """The class of the engine of that name, a key of ENGINES."""
    module, _, cls = ENGINES[name].partition(":")
    found: Callable[..., Engine] = getattr(importlib.import_module(module), cls)
    return found


def make(name: str, **options: Any) -> Engine:
    """The engine of that name with its own options, without those that are None or empty. InputError for one that it
    does not have."""
    cls = load(name)
    given = {option: value for option, value in options.items() if value}
    for option in given.keys() - inspect.signature(cls).parameters:
        raise InputError(f"--{option.replace('_', '-')} means nothing to the engine {name}")
    return cls(**given)
