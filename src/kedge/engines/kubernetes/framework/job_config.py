"""The text of the job that a Framework carries: the init phase of its pods reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.engines.kubernetes import manifest_text
from kedge.errors import InputError
from kedge.runs.folder import Run
from kedge.spec import yaml


def text(run: Run) -> str:
    """The job file of a run with its secrets masked, and with the parameters that the submitter gave."""
    found = run.job_bytes().decode(errors="replace")
    if not (given := run.info().parameters):
        return found
    job = dict(document(found))
    job["parameters"] = {**_mapping(job.get("parameters")), **given}
    return manifest_text.text(job).removeprefix("---\n")


def extras(run: Run) -> Mapping[str, Any]:
    """The extras of the job file of a run."""
    return _mapping(document(run.job_bytes().decode(errors="replace")).get("extras"))


def document(job: str) -> Mapping[str, Any]:
    """The content of a job file; empty if it cannot be read."""
    try:
        return _mapping(yaml.read_any(job, "job.yaml").value)
    except InputError:
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
