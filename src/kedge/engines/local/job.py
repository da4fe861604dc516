"""Runs a whole job on this machine, and stops it."""

from __future__ import annotations

import random
from contextlib import ExitStack

from kedge.engines.base import JobOutcome
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.local import cgroups, leftovers, process_record
from kedge.engines.local.backend import LocalBackend
from kedge.engines.local.placement import LocalPlaces
from kedge.engines.machine import gpus, secret_files, stop_run
from kedge.engines.machine.resources import gpus_wanted
from kedge.keeper import become_subreaper
from kedge.open_files import raise_limit
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


def run(plan: Plan, run: Run, secrets: Secrets, allow_fewer_gpus: bool) -> JobOutcome:
    """Run the job to its end."""
    become_subreaper()

    def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
        open_files = raise_limit()
        secrets_dir = stack.enter_context(secret_files.written(secret_files.location(run), secrets))
        devices = stack.enter_context(gpus.acquired(gpus_wanted(plan, allow_fewer_gpus)))
        join = stack.enter_context(cgroups.joining(process_record.group_name(run)))
        places = LocalPlaces(plan, run, secrets_dir, devices)
        backend = LocalBackend(run, places, open_files, log, join, plan.task_count)
        stack.callback(backend.close)
        return run_job(plan, run, backend, stops, log, random.random)

    return controlled(run, body, plan)


def stop(run: Run, kill: bool) -> tuple[str, ...]:
    """Stop the job's controller, or what a lost one has left. Returns notes for the user."""
    return stop_run.stop(run, kill, leftovers.end)


def forward(run: Run, number: int) -> None:
    """Forward a signal to the run's controller."""
    stop_run.forward(run, number)


def suspended(run: Run) -> int | None:
    """The pid of the run's controller if it is suspended."""
    return stop_run.suspended(run)
