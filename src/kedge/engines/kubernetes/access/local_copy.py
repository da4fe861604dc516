"""The copy of a run folder on the machine of its user: what is there of it, and how it gets what is sent.

Nothing that is sent is trusted: only paths in plain words are written, no link is followed, and sizes are bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kedge.engines.kubernetes.access import copy_rules
from kedge.engines.kubernetes.access.copy_rules import CopyOrder, KnownFile
from kedge.engines.kubernetes.access.originals import Originals
from kedge.errors import CannotRun
from kedge.light.hashlib import blake2b
from kedge.link.frames import LinkFrame
from kedge.own_files import write_all
from kedge.runs.atomic_files import disk_errors
from kedge.runs.folder import Run
from kedge.untrusted import FOLDER, is_regular

RECORDS, OUTPUTS = "copied", "copied-outputs"  # the parts of a copy: one process at a time has each of them
LIMIT = 1 << 40  # bytes that one session may write
_MOST_FILES = 2_000_000
_BELOW = FOLDER | os.O_NOFOLLOW
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = ".copied-"  # prefix of the name of a file that is not complete, or not known yet


class CopyDamaged(CannotRun):
    """What is sent does not fit what is there: the next session finds out what is."""


class LocalCopy:
    """A part of the copy in the folder of `run`. Only one process at a time has it open, and nobody else writes these
    files."""

    def __init__(self, run: Run, part: str = RECORDS, limit: int = LIMIT) -> None:
        self._limit, self._left_files = limit, _MOST_FILES
        self._run = run
        run.cluster.make()
        self._originals = Originals(run.cluster, part)
        self._top = os.open(run.path, FOLDER)
        self._part: tuple[str, int] | None = None  # path and descriptor of a file that is replaced as a whole

    def close(self) -> None:
        self._drop_part()
        self._originals.close()
        os.close(self._top)

    @property
    def copy(self) -> str:
        """Which copy of the run's own folder this one was made from."""
        return self._originals.copy

    def known(self, order: CopyOrder) -> Iterator[KnownFile]:
        """What is there of the files that are wanted. What a killed command has left unfinished is removed."""
        inodes: set[int] = set()
        for folder, inner, names, at in os.fwalk(dir_fd=self._top, follow_symlinks=False):
            above = folder.removeprefix(".").lstrip("/")
            inner[:] = [name for name in inner if copy_rules.is_folder(f"{above}/{name}".lstrip("/"))]
            for name in names:
                if name.startswith(_NEW) and order.wants(f"{above}/x".lstrip("/")):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=at)
                    continue
                path = f"{above}/{name}" if above else name
                if copy_rules.group(path) is None:
                    continue
                if file := _known(at, path, name, self._originals, inodes, order.wants(path)):
                    yield file
        self._originals.keep_only(inodes)

    def begin(self, copy: str) -> None:
        """From now on this copy of the run's own folder is sent."""
        self._originals.begin(copy)

    def take(self, frame: LinkFrame) -> None:
        """Do what a message says. CopyDamaged: it does not fit; DiskFull; OSError."""
        header = frame.header
        with disk_errors(self._run.path):
            if frame.kind == copy_rules.WRITE:
                self._write(_path(header["path"]), frame.body, header)
            elif frame.kind == copy_rules.RENAME:
                self._rename(_path(header["path"]), _path(header["to"]))
            elif frame.kind == copy_rules.REMOVE:
                self._remove(_path(header["path"]))
            elif frame.kind == copy_rules.FOLDER:
                self._make_folder(header["path"])

    def _write(self, path: str, body: bytes, header: dict[str, Any]) -> None:
        self._limit -= len(body)
        if self._limit < 0:
            raise CannotRun(f"{self._run.id}: more is sent than a run can have; nothing more is copied")
        with self._parent(path) as at:
            if header.get("grows") is True:
                self._append(at, path, body, header)
            else:
                self._replace(at, path, body, header)

    def _append(self, at: int, path: str, body: bytes, header: dict[str, Any]) -> None:
        name, offset = os.path.basename(path), _count(header["offset"])
        if header.get("new") is True:
            fd = self._created(at, name)
            try:
                write_all(fd, body)
                self._named(fd, at, name, _count(header["inode"]))
            finally:
                os.close(fd)
            return
        try:
            fd = os.open(name, _FILE, dir_fd=at)
        except OSError as error:
            raise CopyDamaged(f"{path}: {error.strerror}") from None
        if not is_regular(fd):
            raise CopyDamaged(f"{path}: it is not a regular file")
        try:
            info = os.fstat(fd)
            if info.st_size < offset:
                raise CopyDamaged(f"{path}: it ends before the byte {offset}")
            if self._originals.of(info.st_ino) != header["inode"]:
                self._originals.add(info.st_ino, _count(header["inode"]))
            os.lseek(fd, offset, os.SEEK_SET)
            write_all(fd, body)
        finally:
            os.close(fd)

    def _replace(self, at: int, path: str, body: bytes, header: dict[str, Any]) -> None:
        name = os.path.basename(path)
        if header.get("new") is True:
            self._drop_part()
            self._part = path, self._created(at, name)
        if self._part is None or self._part[0] != path:
            raise CopyDamaged(f"{path}: its beginning is missing")
        fd = self._part[1]
        if os.fstat(fd).st_size != _count(header["offset"]):
            raise CopyDamaged(f"{path}: bytes are missing")
        write_all(fd, body)
        if header.get("last") is True:
            when = _count(header["time"])
            os.utime(fd, ns=(when, when))
            self._named(fd, at, name, _count(header["inode"]))
            self._drop_part()

    def _created(self, at: int, name: str) -> int:
        """A new empty file that is not seen under its name yet."""
        self._left_files -= 1
        if self._left_files < 0:
            raise CannotRun(f"{self._run.id}: more files are sent than a run can have; nothing more is copied")
        with suppress(FileNotFoundError):
            os.unlink(_NEW + _short(name), dir_fd=at)
        return os.open(_NEW + _short(name), _FILE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=at)

    def _named(self, fd: int, at: int, name: str, original: int) -> None:
        """Let a complete file be seen under its name, in the place of what was there."""
        self._originals.add(os.fstat(fd).st_ino, original)
        try:
            os.replace(_NEW + _short(name), name, src_dir_fd=at, dst_dir_fd=at)
        except IsADirectoryError as error:
            raise CopyDamaged(f"{name}: {error.strerror}") from None

    def _drop_part(self) -> None:
        if self._part:
            os.close(self._part[1])
            self._part = None

    def _rename(self, path: str, to: str) -> None:
        if os.path.dirname(path) != os.path.dirname(to):
            raise CopyDamaged(f"{path}: it cannot go to another folder")
        with self._parent(path) as at, suppress(FileNotFoundError):  # then that has happened before
            os.rename(os.path.basename(path), os.path.basename(to), src_dir_fd=at, dst_dir_fd=at)

    def _remove(self, path: str) -> None:
        with self._parent(path) as at, suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(os.path.basename(path), dir_fd=at)

    def _make_folder(self, path: Any) -> None:
        if not copy_rules.is_plain(path) or not copy_rules.is_folder(path):
            raise CopyDamaged("what is sent is no folder of a run")
        with self._parent(f"{path}/x"):
            pass

    @contextmanager
    def _parent(self, path: str) -> Iterator[int]:
        """The folder of a file, made if need be."""
        at = os.dup(self._top)
        try:
            for name in path.split("/")[:-1]:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=at)
                outer, at = at, os.open(name, _BELOW, dir_fd=at)
                os.close(outer)
            yield at
        finally:
            os.close(at)


def _known(at: int, path: str, name: str, originals: Originals, inodes: set[int], is_wanted: bool) -> KnownFile | None:
    """What is there of a file, if it is wanted. Its inode is added to `inodes`."""
    try:
        info = os.lstat(name, dir_fd=at)
        if not stat.S_ISREG(info.st_mode):
            return None
        inodes.add(info.st_ino)
        if not is_wanted:
            return None
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        return None
    try:
        size = os.fstat(fd).st_size
        seen = copy_rules.fingerprint(fd, size), copy_rules.head(fd, size)
    finally:
        os.close(fd)
    return KnownFile(path, originals.of(info.st_ino), size, info.st_mtime_ns, *seen)


def _short(name: str) -> str:
    """A name instead of one that is too long to get a prefix."""
    return name if len(name.encode()) < 200 else blake2b(name.encode(), digest_size=12).hexdigest()


def _path(value: Any) -> str:
    if not copy_rules.is_plain(value) or copy_rules.group(value) is None:
        raise CopyDamaged("what is sent is no file of a run")
    return str(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise CopyDamaged("what is sent has no such number of bytes")
    return value
