"""Looks up commits on git servers."""

from __future__ import annotations

import os

from kedge import programs
from kedge.resolve.lock_file import Pin, Repository

_TIMEOUT_SEC = 20.0
# git must not prompt for a password, nor use transports that run programs, because the address is from a job file.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "http:https:ssh:git:file",
}


def commit(repository: Repository) -> Pin:
    """The commit that a ref points to now, or the reason why it is unknown."""
    environment = {**os.environ, **_ENVIRONMENT}
    argv = ["git", "ls-remote", "--", repository.uri, repository.ref, f"{repository.ref}^{{}}"]
    try:
        _, out, err = programs.run(argv, _TIMEOUT_SEC, environment=environment)
    except FileNotFoundError:
        return Pin(unlocked="git is not installed here")
    except (OSError, ValueError) as error:  # git is not executable; a name cannot be an argument of a program
        return Pin(unlocked=f"git cannot be run: {error}")
    except programs.TookTooLong:
        return Pin(unlocked="the server does not answer in time")
    except programs.OutputTooLarge:
        return Pin(unlocked="the server's answer is too large")
    rows = (line.partition("\t") for line in out.decode(errors="replace").splitlines())
    found = {name: commit for commit, _, name in rows}
    ref = repository.ref
    for name in (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref):  # the order of git clone
        if name in found:
            return Pin(found[name])
    errors = [line for line in err.decode(errors="replace").splitlines() if line.startswith("fatal: ")]
    return Pin(unlocked=errors[0].removeprefix("fatal: ") if errors else f"the server has no {ref}")
