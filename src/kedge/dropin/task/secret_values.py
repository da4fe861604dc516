"""The secrets of a job and of its user. Their values go to a file of their own, never into the TaskSpec."""

from __future__ import annotations

import os

from kedge.contract import SECRET_VALUES
from kedge.dropin.paths import InitPaths
from kedge.dropin.task import documents
from kedge.dropin.task.documents import InitDocument
from kedge.light import json
from kedge.light.types import Any, Iterator, Mapping, NamedTuple
from kedge.own_files import clear, replace_file
from kedge.spec.message_text import show_path

FOLDER = "kedge-secrets"  # in the work folder


class JobSecrets(NamedTuple):
    """`texts` has every scalar by its key, such as `token` or `keys[0].name`. `extension` is what the user has stored
    in the cluster, `token` the job's application token."""

    document: InitDocument
    texts: dict[str, str]
    extension: Mapping[str, Any]
    token: str | None


def read(paths: InitPaths) -> JobSecrets:
    """All that is mounted; what is not there is empty. OSError; InvalidDocument."""
    document = _document(paths.secrets)
    extension = _document(paths.user_extension).value
    texts = {_key(path): text for path, text in _scalars(document.value, (), document)}
    token = documents.read_text(paths.token).strip() if os.path.isfile(paths.token) else None
    return JobSecrets(document, texts, extension if isinstance(extension, dict) else {}, token)


def write(paths: InitPaths, texts: Mapping[str, str]) -> str | None:
    """Write the values for the supervisor, and return their folder; None without secrets. OSError."""
    if not texts:
        return None
    folder = f"{paths.work}/{FOLDER}"
    clear(folder)  # it may be a link that an earlier container has left in the volume
    os.mkdir(folder, 0o700)
    replace_file(f"{folder}/{SECRET_VALUES}", json.dumps(dict(texts)).encode(), 0o600, synced=False)
    return folder


def _document(path: str) -> InitDocument:
    if not os.path.isfile(path):
        return InitDocument(path, None, documents.SourceTexts(None))
    return documents.read(path, secret=True)


def _scalars(value: Any, path: tuple[str | int, ...], document: InitDocument) -> Iterator[tuple[Any, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _scalars(below, (*path, key), document)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _scalars(below, (*path, index), document)
    elif value is not None:
        found = document.texts.get(path)
        yield path, value if isinstance(value, str) or found is None else found.scalar or ""


def _key(path: tuple[str | int, ...]) -> str:
    return show_path(path)
