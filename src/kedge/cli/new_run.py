"""Starts a run: what the commands that submit a job have in common."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext

import click

from kedge.cli.stop_requests import Detached, StopRequests
from kedge.controller.client import LoadingController, loading
from kedge.engines import registry
from kedge.errors import EXIT_INTERRUPTED
from kedge.jobs.engine_choice import EngineChoice
from kedge.resolve.model import Inputs
from kedge.settings import values


def run(file: str, inputs: Inputs, choice: EngineChoice, *, detach: bool, quiet: bool, as_json: bool) -> int:
    """Submit a job and, unless it is detached, show it until it ends. Returns the exit code of the command."""
    try:
        with StopRequests() as requests, _loading(choice.expected(values.load())) as controller:
            # Late, because loading it takes as long as what the controller loads meanwhile.
            attended = importlib.import_module("kedge.cli.attended_run")
            shown = {"detach": detach, "quiet": quiet, "as_json": as_json}
            code: int = attended.run(file, inputs, choice, controller, requests, **shown)
            return code
    except Detached:
        click.echo("kedge: the job has not been submitted", err=True)
        return EXIT_INTERRUPTED


def _loading(engine: str) -> AbstractContextManager[LoadingController | None]:
    """A context in which the controller loads its modules, unless it will do that in a cluster."""
    return nullcontext() if registry.is_in_cluster(engine) else loading(engine)
