"""Applies the git commits and image digests of a lock file, and finds what can be pinned."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from kedge.contract import Action, Callback, Step
from kedge.late_patterns import late_pattern
from kedge.plugins.base import GIT
from kedge.resolve.lock_file import Lock, Repository
from kedge.resolve.model import RoleImage

_COMMIT = late_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEAD = "HEAD"


def pinned(steps: Iterable[Step], lock: Lock | None) -> tuple[Step, ...]:
    """The steps with the commits of the lock file in their git actions."""
    if lock is None or not lock.git:
        return tuple(steps)
    return tuple(
        step._replace(callbacks=tuple(_pinned(callback, lock) for callback in step.callbacks)) for step in steps
    )


def image_names(image: RoleImage) -> frozenset[str]:
    """The names that a user may give for an image: as in the job file, the item's name, or the last part of the address
    with or without its tag."""
    last = image.uri.rpartition("/")[2].partition("@")[0]
    return frozenset({image.uri, image.name, last, last.partition(":")[0]})


def image_pin(image: RoleImage, lock: Lock | None) -> str | None:
    """The digest of an image: from its own name if it has one, otherwise from the lock file."""
    pin = lock.images.get(image.uri) if lock else None
    return image.uri.partition("@")[2] or (pin.value if pin else None)


def _pinned(callback: Callback, lock: Lock) -> Callback:
    wanted = _repository(callback.action)
    pin = lock.git.get(wanted.key) if wanted else None
    if callback.action is None or pin is None or pin.value is None:
        return callback
    parameters: dict[str, Any] = {**callback.action.parameters, "commit": pin.value}
    return callback._replace(action=callback.action._replace(parameters=parameters))


def repositories(steps: Iterable[Step]) -> Iterator[Repository]:
    """The repositories that the steps clone without naming a commit."""
    for step in steps:
        for callback in step.callbacks:
            if wanted := _repository(callback.action):
                yield wanted


def _repository(action: Action | None) -> Repository | None:
    if action is None or action.kind != GIT:
        return None
    uri, commit = action.parameters.get("repo_uri"), action.parameters.get("commit")
    if not isinstance(uri, str) or (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        return None
    named = commit if isinstance(commit, str) else ""
    return Repository(uri, named or _branch(action.parameters.get("options") or ()))


def _branch(options: Any) -> str:
    """The branch in options of git clone such as `--branch v1`."""
    words = [word for option in options if isinstance(option, str) for word in _words(option)]
    for word, following in pairwise((*words, "")):
        if word in ("-b", "--branch") and following:
            return following
        if word.startswith("--branch="):
            return word.partition("=")[2]
    return _HEAD


def _words(option: str) -> list[str]:
    try:
        return shlex.split(option)
    except ValueError:  # a quote that is never closed; git will report it
        return []
