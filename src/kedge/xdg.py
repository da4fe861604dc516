"""The folders for a user's own files by the XDG base directory specification (version 0.8). Variables that are unset,
empty or relative are ignored."""

from __future__ import annotations

import os

from kedge.errors import CannotRun
from kedge.light.types import Mapping

CACHE, CONFIG, STATE, RUNTIME = "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"
_DEFAULTS = {CACHE: ".cache", CONFIG: ".config", STATE: ".local/state"}  # below the home folder

# What is in kedge's folder of the cache.
BUNDLES, CONTAINERS, DATA, DOCUMENTS, RULES, RUNTIMES = (
    "bundles", "containers", "data", "items", "rules", "runtime",
)  # fmt: skip
JOBS = "jobs"  # in its folder of the state: the run folders


def named(variable: str, environment: Mapping[str, str]) -> str | None:
    """The folder that a variable names, None if the variable is ignored."""
    path = environment.get(variable, "")
    return path if os.path.isabs(path) else None


def folder(variable: str, environment: Mapping[str, str]) -> str:
    """The folder that CACHE, CONFIG or STATE names, else its default. CannotRun if the user has no home folder."""
    if path := named(variable, environment):
        return path
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise CannotRun(f"this user has no home folder to keep files in: set {variable} or HOME")
    return os.path.join(home, _DEFAULTS[variable])


def state(name: str, environment: Mapping[str, str]) -> str:
    """`kedge/NAME` among what the user's programs have to keep. CannotRun as `folder`."""
    return os.path.join(folder(STATE, environment), "kedge", name)


def cache(name: str, environment: Mapping[str, str]) -> str:
    """`kedge/NAME` in the user's cache, where NAME is one of the names above. CannotRun as from `folder`."""
    return os.path.join(folder(CACHE, environment), "kedge", name)
