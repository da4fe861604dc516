"""The seed of a run folder: what the submitter gave to the driver, a tar.gz in a Secret."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

from kedge.errors import CannotRun
from kedge.own_files import clear
from kedge.runs.folder import Run

_LARGEST = 256 << 20  # bytes of one file
ORDERS = "cluster/orders.json"


def plant(seed: Path, run: Run) -> bool:
    """Make the run folder from the seed, if it is not there. Returns whether it was made. CannotRun."""
    if run.path.is_dir():
        return False
    half = run.path.with_name(f".{run.path.name}.new")
    try:
        clear(half)
        half.mkdir(mode=0o700, parents=True)
        with tarfile.open(seed) as archive:
            for member in archive:
                _unpack(archive, member, half)
        os.rename(half, run.path)
    except (OSError, tarfile.TarError, ValueError) as error:
        raise CannotRun(f"the run folder cannot be made from {seed}: {error}") from error
    return True


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Files and folders below the folder, and nothing else."""
    parts = [part for part in PurePosixPath(member.name).parts if part != "."]
    if not parts:
        return
    if ".." in parts or "/" in parts[0] or not (member.isdir() or member.isreg()) or member.size > _LARGEST:
        raise ValueError(f"{member.name!r} is not a file or a folder of a run")
    path = folder.joinpath(*parts)
    if member.isdir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600 | member.mode & 0o755)
    with open(fd, "wb") as file, content:
        while data := content.read(1 << 20):
            file.write(data)


def options_in(seed: Path) -> dict[str, Any]:
    """The options of the engine that the orders in the seed name; empty if they cannot be read."""
    try:
        with tarfile.open(seed) as archive:
            for member in archive:
                if member.name.removeprefix("./") == ORDERS and (file := archive.extractfile(member)):
                    with file:
                        return dict(json.load(file)["options"])
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError):
        pass
    return {}
