"""From a job file to a Job, or to every problem in it at once."""

from __future__ import annotations

import os
from collections.abc import Collection

from kedge.errors import InputError, Problem, in_order
from kedge.spec import checks, schema, yaml
from kedge.spec.build import build
from kedge.spec.files import read_text
from kedge.spec.model import Job


def load(path: str | os.PathLike[str], given: Collection[str] = ()) -> tuple[Job, tuple[Problem, ...]]:
    """The job in a file, and the names in it that mean nothing: who resolves the others finds more that is wrong.

    `given` are the names of parameters and secrets whose values do not come from the file.
    InputError: the file cannot be read, or so much is wrong that there is no job; it holds all problems.
    """
    return _read(read_text(path), os.fspath(path), given)


def parse(text: str, file: str = "job.yaml", given: Collection[str] = ()) -> Job:
    """The job in a text; `file` is its name in messages. InputError holds all problems, in the order of the text."""
    job, problems = _read(text, file, given)
    if problems:
        raise InputError(*in_order(problems))
    return job


def _read(text: str, file: str, given: Collection[str]) -> tuple[Job, tuple[Problem, ...]]:
    document = yaml.read(text, file)
    problems = [
        *document.problems,
        *schema.check(document.value, document.source),
        *checks.check(document.value, document.source),
    ]
    names = tuple(checks.check_names(document.value, document.source))
    if problems:
        # Nobody will render the references of this file, so what is wrong with them is told here.
        references = checks.references(document.value, document.source, given)
        raise InputError(*in_order([*problems, *names, *references]))
    return build(document.value, document.source), names
