"""Checks of the storages in a settings file that the types of single keys cannot express."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.errors import Problem
from kedge.late_patterns import late_pattern
from kedge.settings.table import STORAGES
from kedge.spec.message_text import quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.tolerant import mapping

_NAME = late_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")  # also of a link and of a mount point


_SECRET = ("user", "username", "pass", "password", "password2", "cred", "credentials")  # options of mount.cifs(8)


def problems(document: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """Every conflict in the storages of a file."""
    for name, entry in mapping(document.get(STORAGES)).items():
        path: Path = (STORAGES, name)
        if wrong := wrong_name(str(name)):
            yield source.problem(path, wrong, key=True)
        if isinstance(entry, Mapping):
            yield from (
                source.problem((*path, key) if key else path, message, key=True) for key, message in _conflicts(entry)
            )


def wrong_name(name: str) -> str | None:
    """Why a storage cannot have this name; None if it can."""
    if _NAME.fullmatch(name):
        return None
    rule = "use at most 100 letters, digits, '-', '_' and '.', and no '-' or '.' at the start"
    return f"{quote(name)} cannot name a storage: {rule}"


def _conflicts(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The key and the message of each conflict in one storage."""
    remote = [kind for kind in ("nfs", "cifs") if kind in entry]
    if len(remote) == 2:
        yield "cifs", "a storage is either nfs or cifs; remove one of them"
    elif not remote and "path" not in entry and "pvc" not in entry:
        yield "", "it has no place: set path to a folder of this machine, or set nfs, cifs or pvc"
    options = str(mapping(entry.get("cifs")).get("options", "")).split(",")
    if any(option.partition("=")[0] in _SECRET for option in options):
        yield "cifs", "every user can read its options: name a file with user and password in credentials instead"
    if "credentials" in entry and "cifs" not in entry:
        yield "credentials", "it has no effect without cifs"
    if entry.get("readOnly") and "writers" in entry:
        yield "writers", "readOnly = true is for everybody; remove it, or remove writers"
    if entry.get("makeSubPath") and "subPath" not in entry:
        yield "makeSubPath", "it has no effect without subPath"
    elif entry.get("makeSubPath") and "path" not in entry:
        yield "makeSubPath", "kedge can make folders only in a path of this machine; make them on the server"
