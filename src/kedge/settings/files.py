"""Reads one settings file, and reports every problem in it at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from kedge import user_files
from kedge.errors import InputError, Problem, in_order
from kedge.settings import document_schema, storage_checks
from kedge.settings.table import ANY_NAME, Setting
from kedge.settings.values import SettingOrigin, SettingValue
from kedge.spec import toml
from kedge.spec.files import decode
from kedge.spec.model import JobFileSource, Path
from kedge.spec.schema import check_document
from kedge.spec.tolerant import mapping

_LARGEST = 1 << 20  # bytes
_NOT_OF_USERS = "only the site's file may set this, and this is a user's file"


@lru_cache(maxsize=4)
def read(path: str, is_site: bool, state: object = None) -> dict[Path, SettingValue]:
    """The values that a file sets, by their keys. `is_site`: it is the site's file, not a user's. `state` changes when
    the file does. InputError: it holds all problems."""
    return values(_text(path), path, is_site)


def values(text: str, file: str, is_site: bool) -> dict[Path, SettingValue]:
    """The values that the text of a file sets. InputError: it holds all problems."""
    document, source = toml.read(text, file)
    settings = document_schema.rows(document)
    problems = [*check_document(document, source, document_schema.schema(settings, document))]
    problems += document_schema.unknown_engines(document, source)
    problems += storage_checks.problems(document, source)
    found = [(setting, key, value) for setting in settings for key, value in _set(setting, document)]
    if not is_site:
        problems += [*_reserved(found, source), *_reserved_options(document, source)]
    if problems:
        raise InputError(*in_order(problems))
    folder = os.path.dirname(os.path.abspath(file))
    return {
        key: SettingValue(_final(setting, value, folder), SettingOrigin(file, source.mark(key).line))
        for setting, key, value in found
    }


def _text(path: str) -> str:
    try:
        data = user_files.read(path, _LARGEST)
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InputError(Problem(path, 0, 0, "", f"it cannot be read: {error.strerror}")) from None
    if mode & stat.S_IWOTH:
        message = f"every user of this machine can change it, so it is not used; run: chmod o-w {path}"
        raise InputError(Problem(path, 0, 0, "", message))
    return decode(data, path)


def _set(setting: Setting, document: Any) -> Iterator[tuple[Path, Any]]:
    """The keys and values in a document that belong to one setting."""
    found: list[tuple[Path, Any]] = [((), document)]
    for step in setting.key.split("."):
        found = [
            ((*path, name), below)
            for path, value in found
            for name, below in mapping(value).items()
            if step in (name, ANY_NAME)
        ]
    yield from found


def _reserved(found: Iterable[tuple[Setting, Path, Any]], source: JobFileSource) -> Iterator[Problem]:
    for setting, key, _ in found:
        if setting.site_only:
            yield source.problem(key, _NOT_OF_USERS, key=True)


def _reserved_options(document: Any, source: JobFileSource) -> Iterator[Problem]:
    """Problems with options in a user's virtual clusters that only the site's file may set."""
    for name, entry in mapping(mapping(document).get("virtual-clusters")).items():
        reserved = document_schema.site_only_options(mapping(entry).get("engine"))
        for option in mapping(mapping(entry).get("options")):
            if option in reserved:
                yield source.problem(("virtual-clusters", name, "options", option), _NOT_OF_USERS, key=True)


def _final(setting: Setting, value: Any, folder: str) -> Any:
    """The value as it is used: paths are absolute, and whole numbers are integers."""
    if isinstance(value, dict):
        return {name: _final(setting, below, folder) for name, below in value.items()}
    if isinstance(value, list):
        return [_final(setting, below, folder) for below in value]
    if setting.is_path and isinstance(value, str) and "://" not in value:
        return os.path.normpath(os.path.join(folder, os.path.expanduser(value)))
    if setting.schema["type"] == "integer":
        return int(value)  # TOML's 3.0 is a whole number, too
    return value
