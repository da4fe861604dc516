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
from kedge.resolve.model import Inputs, LockState, Secrets
from kedge.resolve.resolve import resolve
from kedge.settings import values
from kedge.settings.table import MARKETPLACE, RULES
from kedge.settings.values import AllSettings
from kedge.spec.model import Job
from kedge.spec.parse import load
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


def prepare(path: str, inputs: Inputs) -> PreparedJob:
    """Load, resolve and plan a job file. InputError: lists every problem."""
    known = values.load()
    job, problems = load(path, {*inputs.parameters, *inputs.secrets})
    notes: tuple[str, ...] = ()
    if known.from_files:
        site = importlib.import_module("kedge.jobs.site_rules")
        job, more, notes = site.apply(job, known)
        inputs, problems = site.within_hosts(inputs, known), (*problems, *more)
    resolved = resolve(job, replace(inputs, usual_marketplace=known.get(MARKETPLACE).value), problems)
    plan = build(resolved)
    plan = replace(plan, notes=(*plan.notes, *notes)) if notes else plan
    if known.get(RULES).value:
        plan = replace(plan, rules=importlib.import_module("kedge.jobs.rules").with_usual(plan.rules, known))
    if is_masked(resolved.job):
        plan = replace(plan, notes=(*plan.notes, "the secrets of this file were removed when it was stored"))
    parameters = {**resolved.job.parameters, **inputs.parameters}
    return _with_new_pins(
        PreparedJob(resolved.job, plan, resolved.secrets, resolved.lock, parameters, resolved.warnings, known)
    )


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
