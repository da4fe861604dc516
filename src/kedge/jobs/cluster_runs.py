"""Finds runs that other machines have submitted to the user's cluster."""

from __future__ import annotations

import importlib
from pathlib import Path

from kedge.errors import CannotRun, InputError
from kedge.runs import copies
from kedge.settings import values
from kedge.settings.table import ENGINE


def import_runs(jobs: Path, engine: str | None = None, wanted: str | None = None) -> str:
    """Make folders in `jobs` for the runs that a cluster has and this machine has not: with `wanted`, of those with
    this job's name, or with an id that begins with it. The cluster is that of the engine, or of the settings. Returns
    why that was not possible; empty if it was, or if there is no such cluster. UnknownEngine: `engine` is none."""
    if engine:
        importlib.import_module("kedge.engines.registry").load(engine)
    try:
        name = engine or values.load().get(ENGINE).value
        if not copies.has_copies(name):
            return ""
        options = importlib.import_module("kedge.jobs.engine_choice").EngineChoice.settings_of(name)
    except InputError as error:  # broken settings stop new runs only
        return str(error).partition("\n")[0]
    try:
        copies.import_runs(name, options, jobs, wanted)
    except CannotRun as error:
        return str(error)
    return ""
