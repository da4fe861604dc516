"""The lock file beside a job file: the content behind every name outside the job when the file was written.

    job.lock   {"version": 1, "items": {reference: {source, version, sha256}}, "files": {path: sha256},
                "git": {"repository#ref": {value}}, "images": {image: {value}}}

`value` is a commit or a digest. If there is none, `unlocked` gives the reason instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Any, NamedTuple, TypeVar

from kedge import user_files
from kedge.errors import InputError, Problem
from kedge.own_files import replace_file
from kedge.quick_dataclasses import dataclass
from kedge.spec.files import STDIN

_FORMAT = 1
_MAX_BYTES = 16 << 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Locked:
    """The content behind one reference: its source, its version if it has one, and its SHA-256.

    `identity` is the same for all references to one item.
    """

    identity: str
    source: str
    sha256: str
    version: str | None = None


class Repository(NamedTuple):
    """A repository and the requested branch or tag."""

    uri: str
    ref: str

    @property
    def key(self) -> str:
        """Its key in a lock file."""
        return f"{self.uri}#{self.ref}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A git commit or an image digest in `value`, or the reason for its absence in `unlocked`."""

    value: str | None = None
    unlocked: str | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """A whole lock file. `files` maps paths relative to the lock file to SHA-256 digests; `git` is keyed by
    `Repository.key`, `images` by the image's name."""

    items: Mapping[str, Locked] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, Pin] = field(default_factory=dict)
    images: Mapping[str, Pin] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON that `load` reads back; sorted, so that diffs are small."""
        return {"version": _FORMAT} | {
            key: {name: _without_nulls(below) for name, below in sorted(asdict(self)[key].items())}
            for key in ("items", "files", "git", "images")
        }


EMPTY = Lock()


def lock_path(job_file: str) -> str:
    """The path of a job file's lock file: the same name with the suffix `.lock`. Empty if the job comes from stdin,
    which has no lock file."""
    if job_file == STDIN:
        return ""
    return os.path.splitext(job_file)[0] + ".lock"


def load(path: str) -> Lock | None:
    """The lock in a file; None if there is no such file. InputError: it cannot be read."""
    try:
        data = user_files.read(path, _MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from None
    return parse(data, path)


def parse(data: bytes, path: str) -> Lock:
    """The lock in the content of the file at `path`. InputError: it cannot be read."""
    try:
        return _from_json(json.loads(data.decode()))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> InputError:
    line, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (0, 0)
    message = f"this lock file cannot be read ({_reason(error)}); delete it and run 'kedge lock' to write a new one"
    return InputError(Problem(path, line, column, "", message))


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the key {error} is missing"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return getattr(error, "msg", None) or getattr(error, "strerror", None) or f"{error}"


def save(path: str, lock: Lock) -> None:
    """Write a lock file atomically. OSError: it cannot be written."""
    replace_file(path, (json.dumps(lock.to_json(), indent=2) + "\n").encode(), 0o666)  # less the umask, as any other


def _from_json(data: Any) -> Lock:
    if data["version"] != _FORMAT:
        raise ValueError(f"its format is version {data['version']}; this kedge supports only version {_FORMAT}")
    return Lock(
        items={name: _entry(Locked, name, entry) for name, entry in data["items"].items()},
        files={str(name): str(sha256) for name, sha256 in data["files"].items()},
        git={name: _entry(Pin, name, entry) for name, entry in data["git"].items()},
        images={name: _entry(Pin, name, entry) for name, entry in data["images"].items()},
    )


def _entry(kind: type[_T], name: str, values: dict[str, Any]) -> _T:
    """An entry from its JSON values, which must be strings; optional ones may be null."""
    entry = kind(**values)
    for one in fields(entry):  # type: ignore[arg-type]
        value = getattr(entry, one.name)
        if not (isinstance(value, str) or (value is None and one.default is None)):
            raise TypeError(f"{name}: {one.name!r} is not a string")
    return entry


def _without_nulls(value: Any) -> Any:
    return {key: below for key, below in value.items() if below is not None} if isinstance(value, dict) else value
