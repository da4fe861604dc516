"""The lock file beside a job file: which content every name outside of the job stood for.

    job.lock   {"version": 1, "items": {reference: {source, version, sha256}}, "files": {path: sha256},
                "git": {"repository#ref": {value}}, "images": {image: {value}}}

The value is a commit or a digest; where there is none, `unlocked` says why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from kedge import user_files
from kedge.errors import InputError, Problem
from kedge.spec.files import STDIN

_FORMAT = 1
_LARGEST = 16 << 20  # bytes
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Locked:
    """The content behind one reference: where it came from, its version if it has one, and its SHA-256.

    `identity` is the same for all references to the same item.
    """

    identity: str
    source: str
    sha256: str
    version: str | None = None


class Repository(NamedTuple):
    """A repository, and the branch or tag of it that is wanted."""

    uri: str
    ref: str

    @property
    def key(self) -> str:
        """How a lock file names it."""
        return f"{self.uri}#{self.ref}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A git commit or an image digest: `value`, or `unlocked` with the reason why there is none."""

    value: str | None = None
    unlocked: str | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """A whole lock file. `files` maps paths, from the lock file's folder, to SHA-256; `git` is keyed by
    `Repository.key`, `images` by the image's name."""

    items: Mapping[str, Locked] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, Pin] = field(default_factory=dict)
    images: Mapping[str, Pin] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The form in which `load` reads it back; sorted, so that differences between two are small."""
        return {"version": _FORMAT} | {
            key: {name: _without_nothing(below) for name, below in sorted(asdict(self)[key].items())}
            for key in ("items", "files", "git", "images")
        }


NOTHING = Lock()


def lock_path(job_file: str) -> str:
    """The lock file of a job file: the same name with `.lock` instead of its suffix. Empty, for none, if the job comes
    from stdin."""
    if job_file == STDIN:
        return ""
    return os.path.splitext(job_file)[0] + ".lock"


def load(path: str) -> Lock | None:
    """The lock in a file; None if there is no such file. InputError: it cannot be read."""
    try:
        return _from_json(json.loads(user_files.read(path, _LARGEST).decode()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        line, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (0, 0)
        message = f"this lock file cannot be read ({_reason(error)}); delete it, and 'kedge lock' writes a new one"
        raise InputError(Problem(path, line, column, "", message)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the key {error} is missing"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return getattr(error, "msg", None) or getattr(error, "strerror", None) or f"{error}"


def save(path: str, lock: Lock) -> None:
    """Write a lock file, as a whole or not at all. OSError as from writing."""
    temporary = f"{path}.{os.getpid()}.new"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(json.dumps(lock.to_json(), indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _from_json(data: Any) -> Lock:
    if data["version"] != _FORMAT:
        raise ValueError(f"its format is version {data['version']}, this kedge knows {_FORMAT}")
    return Lock(
        items={name: _made(Locked, name, entry) for name, entry in data["items"].items()},
        files={str(name): str(sha256) for name, sha256 in data["files"].items()},
        git={name: _made(Pin, name, entry) for name, entry in data["git"].items()},
        images={name: _made(Pin, name, entry) for name, entry in data["images"].items()},
    )


def _made(kind: type[_T], name: str, entry: dict[str, Any]) -> _T:
    """An entry, all of whose values are texts; those that may be missing may be null."""
    made = kind(**entry)
    for one in fields(made):  # type: ignore[arg-type]
        value = getattr(made, one.name)
        if not (isinstance(value, str) or (value is None and one.default is None)):
            raise TypeError(f"{name}: {one.name!r} is no text")
    return made


def _without_nothing(value: Any) -> Any:
    return {key: below for key, below in value.items() if below is not None} if isinstance(value, dict) else value
