"""Whether this node sees the run folder. The controller asks for ports first, so this is found before anything runs."""

from __future__ import annotations

import os

PATIENCE_SEC = 10.0  # network file systems may show new files late
LOOK_SEC = 0.5


def missing(address_file: str | None) -> str | None:
    """The path that should be on a file system which this node shares with the controller, and is not."""
    if address_file is None or os.path.exists(address_file):
        return None
    run = os.path.dirname(os.path.dirname(address_file))
    return address_file if os.path.isdir(run) else run


def explain(path: str, node: str) -> str:
    """A message for the user."""
    return (
        f"node {node} does not see {path}: the run folder must be on a file system that all nodes of the cluster share;"
        " set XDG_STATE_HOME to a folder on one"
    )
