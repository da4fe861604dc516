"""From a job file to a job that is ready to be submitted: load, resolve, plan."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from kedge.errors import Problem
from kedge.plan.build import build
from kedge.plan.model import Plan
from kedge.quick_dataclasses import dataclass
from kedge.resolve.document_cache import DocumentCache, default_folder
from kedge.resolve.model import Inputs, LockState, ResolvedJob, Secrets, StorageNames
from kedge.resolve.resolve import resolve
from kedge.settings import values
from kedge.settings.table import MARKETPLACE, RULES, STORAGES
from kedge.settings.values import AllSettings
from kedge.spec.model import Job
from kedge.spec.parse import load, load_text
from kedge.spec.redact import is_masked


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job that is ready to be submitted. `warnings` report likely mistakes in its file; `settings` are those of the
    site and the user."""

    job: Job
    plan: Plan
    secrets: Secrets = field(repr=False)
    locked: LockState
    parameters: Mapping[str, Any] = field(default_factory=dict)  # the file's and the submitter's
    warnings: tuple[Problem, ...] = ()
    settings: AllSettings = field(default_factory=AllSettings, repr=False)
    inputs: Inputs = field(default_factory=lambda: Inputs(""), repr=False)
    documents: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # as in ResolvedJob
    needed_secrets: tuple[str, ...] = ()


def prepare(path: str, inputs: Inputs, *, places_storages: bool = True) -> PreparedJob:
    """Load, resolve and plan a job file, or the record in `inputs`. Without `places_storages`, the storages of the job
    are not looked for, as it may be meant for another site. InputError: lists every problem."""
    known, record = values.load(), inputs.record
    job, problems, notes = _loaded(path, inputs)
    if known.from_files:
        adapted = importlib.import_module("kedge.jobs.site_rules").apply(job, known)
        inputs = importlib.import_module("kedge.jobs.site_limits").within_hosts(inputs, known)
        job, problems, notes = adapted.job, (*problems, *adapted.problems), (*notes, *adapted.notes)
    storages = _storages(job, known, inputs) if places_storages else None
    names = storages.names(job.extras.get("storages") == []) if storages else None
    if places_storages and names is None:
        names = StorageNames()
    resolved = resolve(job, replace(_with_usual(inputs, known), storage_names=names), problems)
    if storages and resolved.mounts:
        mounts, placed = storages.placed(resolved.mounts, job.name)
        resolved, notes = replace(resolved, mounts=mounts), (*notes, *placed)
    if is_masked(resolved.job) and not record:
        notes = (*notes, "the secrets of this file were removed when it was stored")
    return _with_new_pins(
        PreparedJob(
            job=resolved.job,
            plan=_planned(resolved, known, notes, inputs),
            secrets=resolved.secrets,
            locked=resolved.lock,
            parameters={**resolved.job.parameters, **inputs.parameters},
            warnings=resolved.warnings,
            settings=known,
            inputs=inputs,
            documents=resolved.documents,
            needed_secrets=resolved.needed_secrets,
        )
    )


def _with_usual(inputs: Inputs, known: AllSettings) -> Inputs:
    """The inputs with what the settings name for jobs, above all for those that name nothing themselves."""
    marketplaces = {name: found["base"].value for name, found in known.group("marketplaces").items()}
    return replace(inputs, marketplaces=marketplaces, usual_marketplace=known.get(MARKETPLACE).value)


def _storages(job: Job, known: AllSettings, inputs: Inputs) -> Any:
    """The storages that are configured or given, as jobs.storages.Storages; None if there are none."""
    if not inputs.storages and not known.group(STORAGES):
        return None
    return importlib.import_module("kedge.jobs.storages").Storages(known, inputs.storages)


def _planned(resolved: ResolvedJob, known: AllSettings, notes: tuple[str, ...], inputs: Inputs) -> Plan:
    """The plan with further notes and what the settings add."""
    again = inputs.record is not None
    plan = replace(build(resolved), hold_sec=inputs.hold_on_failure_sec)
    plan = replace(plan, notes=(*plan.notes, *notes)) if notes else plan
    if known.get(RULES).value and not again:  # those of a record include the usual ones of its time
        plan = replace(plan, rules=importlib.import_module("kedge.jobs.rules").with_usual(plan.rules, known))
    if known.from_files:
        limits = importlib.import_module("kedge.jobs.site_limits")
        plan = limits.within_hold(limits.within_time(plan, known), known)
    return plan


def _loaded(path: str, inputs: Inputs) -> tuple[Job, tuple[Problem, ...], tuple[str, ...]]:
    """The job of a file, or of the record in `inputs`, with the problems of its names, and notes."""
    given, record = {*inputs.parameters, *inputs.secrets}, inputs.record
    if record is None:
        return *load(path, given), ()
    job, problems = load_text(record.text, record.file, given)
    rerun = importlib.import_module("kedge.jobs.rerun")
    return rerun.restored(job, problems, inputs.parameters)  # type: ignore[no-any-return]


def _with_new_pins(prepared: PreparedJob) -> PreparedJob:
    """The job with new pins for the images whose change the submitter accepts."""
    state = prepared.locked
    if state.old is None or not state.images:
        return prepared
    pins = importlib.import_module("kedge.jobs.pins").of_images(state.images)  # slow to import and rarely needed
    roles = (replace(role, pin=pins[role.image].value) if role.image in pins else role for role in prepared.plan.roles)
    locked = state._replace(new=replace(state.new, images={**state.new.images, **pins}))
    return replace(prepared, plan=replace(prepared.plan, roles=tuple(roles)), locked=locked)


def cache() -> DocumentCache:
    """The cache of the documents that this user's jobs have fetched."""
    return DocumentCache(default_folder(os.environ))
