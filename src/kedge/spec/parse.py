"""Turns a job file into a Job, or into all of its problems at once."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from kedge.errors import ERROR, InputError, Problem, in_order
from kedge.spec import checks, schema, yaml
from kedge.spec.build import build
from kedge.spec.files import named, read_text
from kedge.spec.lint import checks as lint
from kedge.spec.lint.scripts import Script, scripts
from kedge.spec.model import Job, JobFileSource


def load(path: str | os.PathLike[str], given: Collection[str] = ()) -> tuple[Job, tuple[Problem, ...]]:
    """The job in a file, and the problems with its names. They are returned rather than raised because resolving the
    other names may find further problems.

    `path` may be `-` for stdin. A shell checks the job's commands too. `given` are the names of parameters and secrets
    whose values come from outside the file.
    InputError: the file cannot be read, or has errors other than names; it holds all problems.
    """
    return _read(read_text(path), named(path), given, shell_too=True)


def load_text(text: str, file: str, given: Collection[str] = ()) -> tuple[Job, tuple[Problem, ...]]:
    """As `load`, for the text of a job file that was read before; `file` is its name in messages."""
    return _read(text, file, given, shell_too=True)


def parse(text: str, file: str = "job.yaml", given: Collection[str] = ()) -> Job:
    """The job in a text; `file` is its name in messages. InputError holds all problems, in the order of the text.

    `given` are the names of parameters and secrets whose values come from outside the text.
    """
    job, problems = _read(text, file, given)
    if problems:
        raise InputError(*in_order([*problems, *job.warnings]))
    return job


def _read(text: str, file: str, given: Collection[str], shell_too: bool = False) -> tuple[Job, tuple[Problem, ...]]:
    document = yaml.read(text, file)
    value, source = document.value, document.source
    shells = _shells(scripts(value, source, given) if shell_too else iter(()))
    found = [*document.problems, *schema.check(value, source), *checks.check(value, source)]
    found += _elsewhere(found, [*lint.check(value, source), *shells(source)])
    names = tuple(checks.check_names(value, source))
    if any(problem.severity == ERROR for problem in found):
        # References are normally checked when they are rendered; this file never gets that far.
        references = checks.references(value, source, given)
        raise InputError(*in_order([*found, *names, *references]))
    return replace(build(value, source), warnings=tuple(in_order(found))), names


def _shells(doubtful: Iterator[Script]) -> Callable[[JobFileSource], Iterable[Problem]]:
    """Start shells that read these scripts. Call the result for what they complain about."""
    first = next(doubtful, None)
    if first is None:
        return lambda source: ()
    shell = importlib.import_module("kedge.spec.lint.shell")  # slow to load, and most scripts are plainly right
    reading = shell.start(chain((first,), doubtful))
    return lambda source: shell.finish(reading, source)


def _elsewhere(errors: Iterable[Problem], found: Iterable[Problem]) -> list[Problem]:
    """The problems found at places that have no error yet."""
    places = {error.where for error in errors}
    return [problem for problem in found if problem.where not in places]
