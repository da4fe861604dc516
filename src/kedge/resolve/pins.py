"""Commits and digests: what names in git servers and image registries stood for when the job was locked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from kedge.contract import Action, Callback, Step
from kedge.plugins.base import GIT
from kedge.resolve.lock import Lock, Pin

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PATIENCE_SEC = 20.0
_HEAD = "HEAD"


class Repository(NamedTuple):
    """A repository, and the branch or tag of it that is wanted."""

    uri: str
    ref: str

    @property
    def key(self) -> str:
        """How a lock file names it."""
        return f"{self.uri}#{self.ref}"


def pinned(steps: Iterable[Step], lock: Lock | None, update: tuple[str, ...]) -> tuple[Step, ...]:
    """The steps with the commits of the lock file in their git actions."""
    if lock is None or not lock.git or "all" in update:
        return tuple(steps)
    return tuple(
        step._replace(callbacks=tuple(_pinned(callback, lock) for callback in step.callbacks)) for step in steps
    )


def _pinned(callback: Callback, lock: Lock) -> Callback:
    wanted = _repository(callback.action)
    pin = lock.git.get(wanted.key) if wanted else None
    if callback.action is None or pin is None or pin.value is None:
        return callback
    parameters: dict[str, Any] = {**callback.action.parameters, "commit": pin.value}
    return callback._replace(action=callback.action._replace(parameters=parameters))


def repositories(steps: Iterable[Step]) -> Iterator[Repository]:
    """What the steps clone without naming a commit."""
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
    return Repository(uri, commit if isinstance(commit, str) and commit else _branch(action.parameters.get("options")))


def _branch(options: Any) -> str:
    """The branch in options of git clone such as `--branch v1`."""
    words = [word for option in options or () for word in _words(str(option))]
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word in ("-b", "--branch") and following:
            return following
        if word.startswith("--branch="):
            return word.partition("=")[2]
    return _HEAD


def _words(option: str) -> list[str]:
    try:
        return shlex.split(option)
    except ValueError:  # a quote that is never closed; git will say so
        return []


def commits(wanted: Iterable[Repository]) -> dict[str, Pin]:
    """The commit that each repository's ref stands for now, asked of its server; else why it is not known."""
    unique = list(dict.fromkeys(wanted))
    with ThreadPoolExecutor(max_workers=8) as pool:
        return {repository.key: pin for repository, pin in zip(unique, pool.map(_ask, unique), strict=True)}


def _ask(repository: Repository) -> Pin:
    # Credentials are only in the task; transports that run programs are not for names from a job file.
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "http:https:ssh:git:file"}
    argv = ["git", "ls-remote", "--", repository.uri, repository.ref, f"{repository.ref}^{{}}"]
    try:
        done = subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE_SEC,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return Pin(unlocked="git is not installed here")
    except subprocess.TimeoutExpired:
        return Pin(unlocked="the server does not answer in time")
    rows = (line.partition("\t") for line in done.stdout.splitlines())
    found = {name: commit for commit, _, name in rows}
    ref = repository.ref
    for name in (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref):  # as git clone prefers them
        if name in found:
            return Pin(found[name])
    said = done.stderr.strip().splitlines()
    return Pin(unlocked=said[-1] if said else f"the server has no {ref}")
