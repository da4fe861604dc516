"""The values of a job's secrets: what the file says and what the submitter gave, in the forms the task needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.resolve.model import Inputs, Secrets
from kedge.spec.model import Job, Path
from kedge.spec.text import show_path

SHORTEST_MASKED = 8  # bytes; the runtime masks no shorter ones, because they turn up by chance


def collect(job: Job, inputs: Inputs, referred: Mapping[str, str]) -> Secrets:
    """All secrets: a given one replaces the file's of the same name. `referred` are texts by SecretRef key."""
    document = {**(job.secrets if isinstance(job.secrets, Mapping) else {}), **inputs.secrets}
    texts = {show_path(path): text for path, text in _scalars(document, (), job)}
    return Secrets(document, {**texts, **referred})


def unmasked(secrets: Secrets) -> tuple[str, ...]:
    """A warning about the secrets whose values are too short to be masked, if there are any."""
    short = sorted(key for key, text in secrets.texts.items() if 0 < len(text.encode()) < SHORTEST_MASKED)
    if not short:
        return ()
    names = ", ".join(short)
    return (f"not masked in logs, because their values have fewer than {SHORTEST_MASKED} characters: secrets {names}",)


def _scalars(value: Any, path: Path, job: Job) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _scalars(below, (*path, key), job)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _scalars(below, (*path, index), job)
    elif isinstance(value, str):
        yield path, value
    elif value is not None:
        mark = job.source.marks.get(("secrets", *path))
        yield path, (mark.scalar if mark and mark.scalar is not None else str(value))
