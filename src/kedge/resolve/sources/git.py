"""Commits, asked of git servers."""

from __future__ import annotations

import os
import subprocess

from kedge.resolve.lock import Pin, Repository

_PATIENCE_SEC = 20.0
# Nobody is asked for a password. Transports that run programs are not for names from a job file.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "http:https:ssh:git:file",
}


def commit(repository: Repository) -> Pin:
    """The commit that a ref stands for now; else why it is not known."""
    environment = {**os.environ, **_ENVIRONMENT}
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
    said = [line for line in done.stderr.splitlines() if line.startswith("fatal: ")]
    return Pin(unlocked=said[0].removeprefix("fatal: ") if said else f"the server has no {ref}")
