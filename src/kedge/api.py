"""The functions of the Python API. Thin: each is a few calls of what the command line calls, too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.diagnose.rules import rule_files
from kedge.errors import CannotRun, InputError, in_order
from kedge.jobs import engine_choice, preparation, submission
from kedge.jobs import runs as this_users_runs
from kedge.jobs.engine_choice import EngineChoice
from kedge.jobs.user import user_name
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs
from kedge.runs.folder import Run, RunInfo
from kedge.runs.status import JobStatus
from kedge.spec import parse
from kedge.spec.model import Job

FilePath = str | os.PathLike[str]


def load(path: FilePath, inputs: Inputs | None = None) -> Job:
    """The job in a file. InputError names every problem in it."""
    given = _inputs(inputs)
    job, problems = parse.load(path, {*given.parameters, *given.secrets})
    if problems:
        raise InputError(*in_order([*problems, *job.warnings]))
    return job


def plan(path: FilePath, inputs: Inputs | None = None) -> Plan:
    """What a job file will run, with all its prerequisites. Starts nothing. InputError, CannotRun."""
    return preparation.prepare(os.fspath(path), _inputs(inputs)).plan


def run(path: FilePath, inputs: Inputs | None = None, engine: str | None = None, **options: Any) -> JobStatus:
    """Run a job file to its end, and return how it ended. `options` are those of the engine, as for `kedge run`.
    Without `engine`, the settings decide, as they do there.

    A job that fails is a result, no error. InputError: the file or an option is wrong. CannotRun: the job cannot run
    here. When this call is interrupted the job continues; `kedge stop` ends it.
    """
    prepared = preparation.prepare(os.fspath(path), _inputs(inputs))
    where = engine_choice.choose(EngineChoice(engine, options), prepared).where
    submitted = submission.submit(prepared, where)
    submission.start(submitted)
    try:
        end = submitted.controller.wait()
    finally:
        submitted.controller.close()
    if end and end.error:
        raise CannotRun(end.error)
    return this_users_runs.wait(submitted.run)


def runs() -> list[tuple[Run, RunInfo, JobStatus]]:
    """Every run of this user, newest first: its folder, what it is, and its status."""
    return this_users_runs.all_runs()


def diagnose(log: bytes | str, exit_code: int | None = None, rules: Sequence[FilePath] = ()) -> Diagnosis:
    """Why a program failed, from its output and, if known, its exit code (negative for a signal).

    `rules` are files of rules beside the packaged ones. InputError for a bad one.
    """
    content = log if isinstance(log, bytes) else log.encode(errors="surrogateescape")
    known = rule_files.load([Path(path) for path in rules])
    return classify(Evidence(logs=(("log", content),), exit_code=exit_code), known)


def _inputs(inputs: Inputs | None) -> Inputs:
    return inputs or Inputs(user_name())
