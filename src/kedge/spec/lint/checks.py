"""All checks for valid text in a job file that is most likely a mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from kedge.errors import Problem
from kedge.spec.lint import keys, limits, tags, values, variables
from kedge.spec.message_text import MAX_PROBLEMS
from kedge.spec.model import JobFileSource

_CHECKS: tuple[Callable[[Mapping[str, Any], JobFileSource], Iterator[Problem]], ...] = (
    tags.near_references,
    tags.misplaced,
    variables.variables,
    keys.checksum_without_uri,
    keys.keys,
    values.completion,
    values.task_retries,
    values.empty,
    values.image_names,
    values.ignored,
    values.port_counts,
    values.memory,
    limits.time_limits,
)


def check(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Warnings, and errors where nothing else can be meant; at most 200 per check."""
    for find in _CHECKS:
        yield from islice(find(job, source), MAX_PROBLEMS)
