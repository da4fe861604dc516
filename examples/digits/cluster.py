"""This task and its peers, read from the PAI_* environment variables."""

from __future__ import annotations

import os


def task_index() -> int:
    """The number of this task in its role, from 0."""
    return int(os.environ["PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"])


def task_count(role: str) -> int:
    """How many tasks `role` has."""
    return int(os.environ[f"PAI_TASK_ROLE_TASK_COUNT_{role}"])


def address(role: str, index: int = 0) -> tuple[str, int]:
    """Host and port of one task of `role`."""
    hosts = os.environ[f"PAI_TASK_ROLE_{role}_HOST_LIST"].split(",")
    host, port = hosts[index].rsplit(":", 1)
    return host, int(port)
