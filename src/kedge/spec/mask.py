"""Job files without their secrets, for everything that stores or shows one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kedge.errors import InputError
from kedge.spec import yaml
from kedge.spec.model import Job
from kedge.spec.nodes import Node
from kedge.spec.references import MASKED

_COLON = re.compile(r"\s*:(\s*)")
_QUOTED = f'"{MASKED}"'


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def mask_secrets(text: str, file: str = "job.yaml") -> str:
    """The job file with `"******"` as the value of the top-level key `secrets`; all other characters stay.

    An alias elsewhere that stands for a part of the secrets becomes `"******"` too, or `{}` where it is merged.
    InputError: the text is no YAML mapping or repeats a key, so that nobody can say what is secret.
    """
    body = text.removeprefix("\ufeff")
    document = yaml.read(body, file)
    if document.problems:
        raise InputError(*document.problems)
    secrets = document.root.items.get("secrets")
    if secrets is None or secrets.value in (None, MASKED):
        return text
    parts, done = [text[: len(text) - len(body)]], 0
    for edit in sorted(_edits(document, secrets, body)):
        parts += [body[done : edit.start], edit.text]
        done = edit.end
    return "".join((*parts, body[done:]))


def is_masked(job: Job) -> bool:
    """Whether the job comes from a stored file whose secrets were removed."""
    return job.source.mark(("secrets",)).scalar == MASKED


def _edits(document: yaml.Document, secrets: Node, body: str) -> Iterator[_Edit]:
    key = document.root.keys["secrets"]
    colon = _COLON.fullmatch(body, key.end, secrets.start) if key.end < secrets.start else None
    if colon:
        yield _Edit(colon.start(1), secrets.end, f" {_QUOTED}")
    else:
        # After a comment or far from the key. A list may stand as far left as its key, a scalar may not.
        yield _Edit(secrets.start, secrets.end, f"  {_QUOTED}")
    for alias in document.aliases:
        inside = secrets.start <= alias.node.start < secrets.end
        if inside and not secrets.start <= alias.start < secrets.end:
            yield _Edit(alias.start, alias.end, "{}" if alias.merged else _QUOTED)
