"""The links to the folders of storages in a run folder, for engines that mount nothing."""

from __future__ import annotations

from collections.abc import Mapping

from kedge.own_files import clear
from kedge.runs.folder import Run


def link_storages(run: Run, folders: Mapping[str, str]) -> None:
    """Link the folders of the storages, by name, again for each attempt, since a task may have changed the links."""
    if folders:
        clear(run.storages)
        run.storages.mkdir()
        for name, folder in folders.items():
            (run.storages / name).symlink_to(folder)
