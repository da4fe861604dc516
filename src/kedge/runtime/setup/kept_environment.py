"""The environment of a task, kept for programs that join the task later (`kedge exec`, ssh).

It holds the values of secrets, so it is never a file on a disk: it is a file in memory, which only processes of the
same user can open, through the supervisor's descriptor.
"""

from __future__ import annotations

import os

from kedge.light import json
from kedge.light.types import Any, Mapping
from kedge.own_files import write_all

_NAME = "kedge-environment"
_LINK = f"/memfd:{_NAME} (deleted)"
_LARGEST = 16 << 20  # bytes


class KeptEnvironment:
    """The supervisor's side. OSError: there is no memory for it."""

    def __init__(self) -> None:
        self._fd: int | None = None

    def store(self, environment: Mapping[str, str], directory: str, shell: str) -> None:
        """Keep the variables of the task's programs, their working directory and the task's shell. Readers find either
        the previous state or this one."""
        fd = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        data = {"environment": dict(environment), "directory": directory, "shell": shell}
        write_all(fd, json.dumps(data).encode())
        if self._fd is None:
            self._fd = fd
        else:
            os.dup2(fd, self._fd, inheritable=False)
            os.close(fd)


def read(supervisor: int) -> dict[str, Any] | None:
    """What the supervisor with this pid keeps: `environment`, `directory`, `shell`. None if it has not started its task
    yet, or has ended. PermissionError: it belongs to another user."""
    folder = f"/proc/{supervisor}/fd"
    try:
        for name in os.listdir(folder):
            if os.readlink(f"{folder}/{name}") == _LINK:
                with open(f"{folder}/{name}", "rb") as file:
                    found: dict[str, Any] = json.loads(file.read(_LARGEST))
                return found
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None
