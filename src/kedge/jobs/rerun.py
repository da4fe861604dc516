"""Makes a job again from what its run has recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from kedge import untrusted
from kedge.engines import registry
from kedge.errors import InputError, Problem
from kedge.jobs import record
from kedge.jobs.engine_choice import EngineChoice
from kedge.masking import MASKED
from kedge.resolve import given_environment
from kedge.resolve.model import Inputs
from kedge.runs import status
from kedge.runs.folder import Run, RunInfo
from kedge.runs.run_options import RunOptions
from kedge.spec.marks import node_at
from kedge.spec.model import Job, Path
from kedge.spec.tolerant import strings
from kedge.states import FINAL

_OLDER_STORAGES = "storage"  # where earlier versions recorded the folders of storages, as an engine option
_NAME = r"[^.\[]+"  # the first name of a secret's key, such as `keys[0].name`


def again(run: Run, changes: Inputs, with_job_dir: bool = False) -> Inputs:
    """The inputs that make the job of a run again, with these parameters, secrets and environment variables.

    `with_job_dir`: the new run's job folder begins as a copy of the old one's. InputError: the record is missing or
    damaged, or a value in it was a secret and must be given again.
    """
    info, options = facts(run)
    found = record.read(run, info)
    if wrong := [f"{run.id}: {text}" for text in _missing(options, changes)]:
        raise InputError(*wrong)
    plain, taken = _environment(options, changes)
    return Inputs(
        user=changes.user,
        parameters={**options.parameters, **changes.parameters},
        secrets=changes.secrets,
        workdir=options.workdir,
        rules=options.rules,
        marketplace=options.marketplace,
        hosts=options.hosts,
        env=plain,
        storages={**options.engine.get(_OLDER_STORAGES, {}), **options.storages, **changes.storages},
        taken_env=taken,
        hold_on_failure_sec=changes.hold_on_failure_sec,
        notes=(*changes.notes, *_not_given(options, changes)),
        record=replace(
            found, secrets=(*options.secrets, *options.more_secrets), job_dir=_job_dir(run) if with_job_dir else None
        ),
    )


def engine(run: Run, choice: EngineChoice) -> EngineChoice:
    """The engine of a run with its options, and with those that are chosen now; another engine has only the latter."""
    info, options = facts(run)
    if choice.name not in (None, info.engine):
        return choice
    given = {name: value for name, value in choice.options.items() if value}
    of_site = {option.name for option in registry.options_of(info.engine) if option.site_only}
    recorded = {name: value for name, value in options.engine.items() if name not in {_OLDER_STORAGES, *of_site}}
    return EngineChoice(info.engine, {**recorded, **given}, choice.texts, choice.groups, choice.queue)


def restored(
    job: Job, problems: Iterable[Problem], given: Collection[str]
) -> tuple[Job, tuple[Problem, ...], tuple[str, ...]]:
    """A job as it can be made from its stored file, the problems with that file, and notes: values that held a secret
    are lost. Passwords of images are left out; the parameters in `given` are known."""
    lost = [item for item in job.prerequisites if item.auth and item.auth.password == MASKED]
    kept = tuple(replace(item, auth=None) if item in lost else item for item in job.prerequisites)
    notes = (f"the password of the image {item.name} was not stored; it is pulled without credentials" for item in lost)
    return replace(job, prerequisites=kept), (*problems, *_masked_places(job, given)), tuple(notes)


def _masked_places(job: Job, given: Collection[str]) -> Iterator[Problem]:
    for path, text in strings(node_at(job.source, ()).value, ()):
        if MASKED in text and not _is_secret(path) and not (path[0] == "parameters" and path[1] in given):
            hint = f"; give it again with -p {path[1]}=VALUE" if path[0] == "parameters" else ""
            yield job.source.problem(path, f"held a secret, which was not stored with the run{hint}")


def _is_secret(path: Path) -> bool:
    return path[0] == "secrets" or path[-2:] == ("auth", "password")


def facts(run: Run) -> tuple[RunInfo, RunOptions]:
    """What a run was, and its options. InputError: its run.json is damaged."""
    info = run.info()
    if info.damage:
        raise InputError(f"{run.id} cannot be run again: {info.damage}")
    try:
        return info, RunOptions.from_json(info.options)
    except ValueError as error:
        raise InputError(f"{run.id} cannot be run again: its {run.run_file.name} is damaged: {error}") from None


def _missing(options: RunOptions, changes: Inputs) -> Iterator[str]:
    """What has to be given again."""
    if secrets := [key for key in options.secrets if not _is_given(key, changes.secrets)]:
        ways = "--secret NAME=VALUE, NAME=@FILE or NAME=env:VARIABLE"
        yield f"its secrets were not stored; give each again with {ways}: {', '.join(secrets)}"
    for name, text in options.parameters.items():
        if MASKED in text and name not in changes.parameters:
            yield f"the parameter {name} held a secret, which was not stored; give it again with -p {name}=VALUE"
    given = {**changes.env, **changes.taken_env}
    for name, text in options.env.items():
        if MASKED in text and name not in given:
            yield f"the variable {name} held a secret, which was not stored; give it again with --env {name}=VALUE"
    for name in options.env_from_shell:
        if name not in given and name not in os.environ:
            yield f"the value of {name} came from your shell and was not stored; export it, or add --env {name}=VALUE"


def _not_given(options: RunOptions, changes: Inputs) -> Iterator[str]:
    """A note about secrets that nothing in the job file refers to; tasks may read them from the mounted file."""
    if names := [key for key in options.more_secrets if not _is_given(key, changes.secrets)]:
        yield f"secrets that were not given again, and to which nothing in the job refers: {', '.join(names)}"


def _is_given(key: str, given: Mapping[str, str]) -> bool:
    first = re.match(_NAME, key)
    return key in given or (first is not None and first[0] in given)


def _environment(options: RunOptions, changes: Inputs) -> tuple[dict[str, str], dict[str, str]]:
    """The variables as plain ones, and as those from the submitter's own environment. What is given now comes last."""
    again = [name for name in options.env_from_shell if name not in {**changes.env, **changes.taken_env}]
    taken = {**given_environment.read(again, (), os.environ).taken, **changes.taken_env}
    plain = {name: text for name, text in {**options.env, **changes.env}.items() if name not in taken}
    return plain, taken


def _job_dir(run: Run) -> str:
    state = status.read(run).state
    if state not in FINAL:
        raise InputError(f"{run.id} is {state}, so its job folder still changes; wait for its end, or stop it")
    try:
        os.close(untrusted.open_folder(run.path, run.job_dir.name))
    except OSError as error:
        raise InputError(f"{run.job_dir}: it cannot be copied: {error.strerror}") from None
    return str(run.job_dir)
