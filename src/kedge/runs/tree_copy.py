"""Copies a folder below a run folder, such as the job folder. Tasks may have written it, so nothing in it is trusted.

No link is followed. Links within the folder lead to the copy; those that lead out of it, and everything but files and
folders, are left out. It differs from `transfer` on purpose: folders of any depth are copied, owners are kept, and an
error ends the copy. `transfer` merges into what exists, reports errors of single files and adapts access to the target.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kedge import untrusted
from kedge.contract import JOB_DIR, PAI_HOME
from kedge.errors import InputError
from kedge.file_copies import copy_content, stored_size
from kedge.runs import inner_links
from kedge.runs.atomic_files import disk_errors
from kedge.runs.outputs import entries

_OUT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_IN_CONTAINER = {JOB_DIR: (f"{PAI_HOME}/{JOB_DIR}",)}  # what a container calls a folder of the run
_FOR_ALL = 0o002  # the mode of a folder that any user may write to


class TreeEntry(NamedTuple):
    """One entry by its path in the folder, which is empty for the folder itself."""

    path: str
    info: os.stat_result


def copy(
    run: Path, name: str, target: Path, progress: Callable[[int, int], None] | None = None, rights: int = 0o777
) -> tuple[str, ...]:
    """Copy the folder `name` below a run folder into the empty folder `target`, and return the paths of what was left
    out.

    `progress` is called with the bytes copied so far and in total; `rights` are the bits of modes that are kept.
    InputError: something cannot be read; DiskFull.
    """
    with disk_errors(target):
        try:
            return _TreeCopy(run, name, target, progress, rights).all()
        except PermissionError as error:
            place = os.path.join(run, name, error.filename or "")
            raise InputError(f"{place}: it cannot be copied: {error.strerror}") from None


class _TreeCopy:
    """One copy. Paths are opened folder by folder, because they may be longer than the system allows."""

    def __init__(
        self, run: Path, name: str, target: Path, progress: Callable[[int, int], None] | None, rights: int
    ) -> None:
        self._run, self._name, self._target, self._progress = run, name, target, progress
        self._entries = list(_listed(run, name))
        files = (entry.info for entry in self._entries if stat.S_ISREG(entry.info.st_mode))
        self._total = sum(map(stored_size, files))
        self._bytes, self._rights = 0, rights
        self._is_root = os.geteuid() == 0
        self._opened = not self._is_root and bool(self._entries[0].info.st_mode & _FOR_ALL)

    def all(self) -> tuple[str, ...]:
        left_out = tuple(entry.path for entry in self._entries if not self._copy(entry))
        for entry in reversed(self._entries):
            if stat.S_ISDIR(entry.info.st_mode):
                fd = untrusted.open_folder(self._target, entry.path)
                try:
                    self._finish(fd, entry.info, 0o700)
                finally:
                    os.close(fd)
        return left_out

    def _copy(self, entry: TreeEntry) -> bool:
        """Copy one entry; a folder is made empty. Returns whether there is a copy."""
        parent, _, name = entry.path.rpartition("/")
        if not name:
            return True
        outer, kind = untrusted.open_folder(self._target, parent), stat.S_IFMT(entry.info.st_mode)
        try:
            if kind == stat.S_IFDIR:
                os.mkdir(name, 0o700, dir_fd=outer)
            elif kind == stat.S_IFREG:
                self._file(entry, untrusted.open_regular(self._run, f"{self._name}/{entry.path}"), outer)
            elif kind != stat.S_IFLNK or (text := self._link(entry)) is None:
                return False
            else:
                os.symlink(text, name, dir_fd=outer)
        except FileNotFoundError:  # deleted since it was listed
            return False
        finally:
            os.close(outer)
        return True

    def _file(self, entry: TreeEntry, fd: int, folder: int) -> None:
        try:
            out = os.open(os.path.basename(entry.path), _OUT, 0o600, dir_fd=folder)
            try:
                for count in copy_content(fd, out):
                    self._bytes += count
                    if self._progress:
                        self._progress(self._bytes, self._total)
                self._finish(out, entry.info, 0o600)
            finally:
                os.close(out)
        finally:
            os.close(fd)

    def _link(self, entry: TreeEntry) -> str | None:
        """The text of the link's copy; None if it leads out."""
        parent, _, name = entry.path.rpartition("/")
        inner = untrusted.open_folder(self._run, f"{self._name}/{parent}")
        try:
            text = os.readlink(name, dir_fd=inner)
        finally:
            os.close(inner)
        depth = entry.path.count("/")
        roots = (os.path.join(each, self._name) for each in (self._run, os.path.realpath(self._run)))
        text = inner_links.of_copy(text, (*roots, *_IN_CONTAINER.get(self._name, ())), depth)
        return text if inner_links.leads_inside(text, depth) else None

    def _finish(self, fd: int, info: os.stat_result, least: int) -> None:
        """Give a copied file or folder its owner, mode and times. Without root, files of other users become ours, so
        other users get the rights that they had as the owner."""
        mode = stat.S_IMODE(info.st_mode) | least
        if self._opened:
            mode |= (mode >> 3 & 0o070) | (mode >> 6 & 0o007)
        mode &= self._rights
        if self._is_root:
            os.fchown(fd, info.st_uid, info.st_gid)
        os.fchmod(fd, mode)
        os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))


def _listed(run: Path, name: str) -> Iterator[TreeEntry]:
    """The folder itself, then everything in it, folders before their content."""
    pending = [""]
    while pending:
        folder = pending.pop()
        fd = untrusted.open_folder(run, f"{name}/{folder}")
        try:
            if not folder:
                yield TreeEntry("", os.fstat(fd))
            for each, info in entries(fd):
                entry = TreeEntry(f"{folder}/{each}".lstrip("/"), info)
                yield entry
                if stat.S_ISDIR(entry.info.st_mode):
                    pending.append(entry.path)
        finally:
            os.close(fd)
