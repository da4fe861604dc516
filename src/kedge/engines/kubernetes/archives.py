"""What travels of a run folder: the seed, from which the driver makes its own copy, and the job's code. The same folder
gives the same bytes."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from kedge.contract import JOB_DIR
from kedge.errors import CannotRun
from kedge.runs.folder import Run

_NOT_IN_SEED = frozenset({"code", JOB_DIR, "lock", ".reserve"})  # code travels by itself, the others are made anew
_LEVEL = 6
_MOST_SEED = 64 << 20  # bytes, far above what a Secret holds


class TooLarge(Exception):
    """The archive has more bytes than it may have."""


def seed(run: Run) -> bytes:
    """A tar.gz of the files of a run folder that the controller needs."""
    try:
        return _archive(run.path, sorted(set(os.listdir(run.path)) - _NOT_IN_SEED), _MOST_SEED)
    except TooLarge:
        raise CannotRun("the plan and the secrets of this job are too large for Kubernetes") from None


def code(run: Run, most: int) -> bytes:
    """A tar.gz of the job's code, with one folder for each snapshot; empty if the job has none. TooLarge: it has more
    than `most` bytes."""
    names = sorted(os.listdir(run.code)) if run.code.is_dir() else []
    return _archive(run.code, names, most) if names else b""


def _archive(folder: Path, names: list[str], most: int) -> bytes:
    written = _Bounded(most)
    with (
        gzip.GzipFile(fileobj=written, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _paths(folder, names):
            _add(archive, folder, path)
    return written.getvalue()


def _paths(folder: Path, names: list[str]) -> Iterator[str]:
    """Every path below, relative to the folder, parents first."""
    for name in names:
        yield name
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            inside = sorted(os.listdir(folder / name))
            yield from (f"{name}/{path}" for path in _paths(folder / name, inside))


def _add(archive: tarfile.TarFile, folder: Path, path: str) -> None:
    made = archive.gettarinfo(folder / path, path)
    if made is None or not (made.isreg() or made.isdir() or made.issym()):  # a socket, a FIFO
        return
    made.uid = made.gid = 0
    made.uname = made.gname = ""
    made.mtime = int(made.mtime)
    if made.isreg():
        with open(folder / path, "rb") as file:
            archive.addfile(made, file)
    else:
        archive.addfile(made)


class _Bounded(io.BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: object) -> int:
        written = super().write(data)  # type: ignore[arg-type]
        if self.tell() > self._most:
            raise TooLarge
        return written
