"""The open files that a controller needs: each task has a connection to it."""

from __future__ import annotations

import os
import resource

from kedge.errors import CannotRun

_OF_TASK = 1  # its connection
_OF_MIRRORED_TASK = 3  # and the folder of its files, and how far these have come
_SPARE = 48  # logs, the cluster's programs, connections of strangers


def check(tasks: int, *, mirrored: bool) -> None:
    """CannotRun: this process, which has raised its limit, may not open enough files for so many tasks. Some
    agents could not connect, and the other tasks would wait for them in vain."""
    needed = _SPARE + tasks * (_OF_MIRRORED_TASK if mirrored else _OF_TASK)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < needed:
        raise CannotRun(
            f"the controller of {tasks} tasks needs {needed} open files, but its limit on the node "
            f"{os.uname().nodename} is {limit} (ulimit -Hn): ask the administrator of the cluster to raise it, or use "
            "fewer tasks"
        )
