"""Commits, asked of git servers."""

from __future__ import annotations

import os

from kedge import programs
from kedge.resolve.lock_file import Pin, Repository

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
        _, out, err = programs.run(argv, _PATIENCE_SEC, environment=environment)
    except FileNotFoundError:
        return Pin(unlocked="git is not installed here")
    except (OSError, ValueError) as error:  # not executable; names that no program can be given
        return Pin(unlocked=f"git cannot be asked: {error}")
    except programs.TookTooLong:
        return Pin(unlocked="the server does not answer in time")
    except programs.OutputTooLarge:
        return Pin(unlocked="the server answers too much")
    rows = (line.partition("\t") for line in out.decode(errors="replace").splitlines())
    found = {name: commit for commit, _, name in rows}
    ref = repository.ref
    for name in (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref):  # as git clone prefers them
        if name in found:
            return Pin(found[name])
    said = [line for line in err.decode(errors="replace").splitlines() if line.startswith("fatal: ")]
    return Pin(unlocked=said[0].removeprefix("fatal: ") if said else f"the server has no {ref}")
