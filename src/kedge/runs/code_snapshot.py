"""Copies the user's code into the run folder when a job is submitted. Tasks get copies of this one, or share it.

First everything is listed, then its size is checked, then it is copied under a temporary name and renamed, so that a
copy is complete or absent. It is read-only, so that a task does not change by mistake what others get.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from kedge.errors import InputError
from kedge.file_copies import copy_content, stored_size
from kedge.own_files import clear
from kedge.runs.atomic_files import disk_errors
from kedge.runs.ignore_files import KEDGEIGNORE, Rules

LIMIT = 1 << 30  # bytes
_READ_ONLY = ~0o222  # modes

Progress = Callable[[int, int], None]  # bytes copied, bytes in total


class Copied(NamedTuple):
    """The result of a copy. `outside` names symbolic links that lead out of the folder; they remain links. `gone` names
    what was deleted during the copy and is not in it."""

    files: int
    bytes: int
    outside: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class _GoneError(Exception):
    """A listed entry no longer exists."""


class _Entry(NamedTuple):
    """One entry to copy, by its path relative to the root ("" if the root itself is a file)."""

    path: str
    info: os.stat_result


def copy(
    source: Path, target: Path, *, limit: int = LIMIT, set_by: str = "", progress: Progress | None = None
) -> Copied:
    """Copy a folder to `target`, or a single file into it. `target` must not exist; missing parents are made.

    Skips .git, what .gitignore and .kedgeignore exclude, and everything but files, folders and links. InputError if
    something cannot be read, if it is more than `limit` bytes, or if the copy would contain itself. `set_by` names the
    setting behind the limit, for that error.
    """
    entries, gone = _list(source, target)
    total = sum(_size(entry.info) for entry in entries)
    if total > limit:
        raise InputError(_too_large(source, entries, total, f"{_mib(limit)}{set_by and f', {set_by}'}"))
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.new")
        try:
            copied = _Copier(source, partial, total, progress, gone).copy(entries)
            partial.rename(target)
        except BaseException:
            with suppress(OSError):
                clear(partial)
            raise
    return copied


def _size(info: os.stat_result) -> int:
    """The bytes that a copy takes: holes take none, nor does anything but a regular file."""
    return stored_size(info) if stat.S_ISREG(info.st_mode) else 0


def _list(source: Path, target: Path) -> tuple[list[_Entry], list[str]]:
    """The entries to copy, and the names of what was deleted in the meantime."""
    gone: list[str] = []
    try:
        info = source.stat()
        if stat.S_ISREG(info.st_mode):
            return [_Entry("", info)], gone
        home = _existing(target)
        return [_Entry(".", info), *_walk(source, "", None, (home.st_dev, home.st_ino), gone)], gone
    except OSError as error:
        raise _unreadable(error, source) from error


def _unreadable(error: OSError, source: Path) -> InputError:
    advice = "" if Path(error.filename) == source else f"; if the job does not need it, name it in {KEDGEIGNORE}"
    return InputError(f"{error.filename}: cannot be copied for the job: {error.strerror}{advice}")


def _existing(target: Path) -> os.stat_result:
    """The nearest existing parent of `target`."""
    return next(folder.stat() for folder in target.absolute().parents if folder.exists())


def _walk(folder: Path, prefix: str, above: Rules | None, home: tuple[int, int], gone: list[str]) -> Iterator[_Entry]:
    try:
        with os.scandir(folder) as scan:
            found = sorted(scan, key=lambda entry: entry.name)
    except FileNotFoundError:
        if not prefix:
            raise
        gone.append(prefix)
        return
    rules = Rules(folder, above)
    for entry in found:
        is_folder = entry.is_dir(follow_symlinks=False)
        if rules.ignores(entry.name, is_folder):
            continue
        try:
            info = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            gone.append(prefix + entry.name)
            continue
        if (info.st_dev, info.st_ino) == home:
            raise InputError(
                f"{entry.path}: kedge keeps its run folders here, so it cannot be part of the job's code; "
                f"choose a smaller folder or name it in {KEDGEIGNORE}"
            )
        path = prefix + entry.name
        if is_folder or stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
            yield _Entry(path, info)
        if is_folder:
            yield from _walk(Path(entry.path), f"{path}/", rules, home, gone)


def _too_large(source: Path, entries: list[_Entry], total: int, limit: str) -> str:
    sizes: Counter[str] = Counter()
    for path, info in entries:
        if stat.S_ISREG(info.st_mode):
            sizes[path.partition("/")[0]] += _size(info)
    largest = ", ".join(
        f"{name or source.name} ({_mib(size)})" for name, size in sizes.most_common(5) if size * 100 > total
    )
    return (
        f"{source}: {_mib(total)} is too much to copy for a job (the limit is {limit}). The largest entries are: "
        f"{largest}. List what the job does not need in {source / KEDGEIGNORE}, one pattern per line, as in .gitignore"
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


class _Copier:
    """Copies a list of entries and counts files and bytes."""

    def __init__(self, source: Path, target: Path, total: int, progress: Progress | None, gone: Sequence[str]) -> None:
        self._source, self._target = source, target
        self._root = os.path.realpath(source)
        self._total, self._progress = total, progress
        self._files = self._bytes = 0
        self._outside: list[str] = []
        self._gone = list(gone)

    def copy(self, entries: list[_Entry]) -> Copied:
        if not entries[0].path:
            self._target.mkdir(mode=0o700)
            self._copy_file(self._source, self._target / self._source.name, entries[0].info)
            self._target.chmod(0o500)
        else:
            for path, info in entries:
                try:
                    self._copy_entry(path, info)
                except _GoneError:
                    self._gone.append(path)
            for path, info in reversed(entries):
                if stat.S_ISDIR(info.st_mode):
                    (self._target / path).chmod(info.st_mode & 0o777 & _READ_ONLY | 0o500)
                    _set_times(self._target / path, info)
        return Copied(self._files, self._bytes, tuple(self._outside), tuple(self._gone))

    def _copy_entry(self, path: str, info: os.stat_result) -> None:
        if stat.S_ISDIR(info.st_mode):
            (self._target / path).mkdir(mode=0o700)
        elif stat.S_ISLNK(info.st_mode):
            self._copy_link(path)
        else:
            self._copy_file(self._source / path, self._target / path, info)

    def _copy_link(self, path: str) -> None:
        # A link stays a link: its target is often a data set, which must not be copied. A link within the tree is
        # changed to lead to the copy; a link out of it leads to the same place as before.
        with _may_be_gone():
            text = os.readlink(self._source / path)
        folder = os.path.dirname(os.path.join(self._root, path))
        leads_to = os.path.normpath(os.path.join(folder, text))
        if os.path.commonpath((leads_to, self._root)) != self._root:
            self._outside.append(path)
            text = leads_to
        elif os.path.isabs(text):
            text = os.path.relpath(leads_to, folder)
        os.symlink(text, self._target / path)

    def _copy_file(self, source: Path, target: Path, info: os.stat_result) -> None:
        try:
            # The flags reject a link or FIFO that has taken the file's place since the listing.
            with _may_be_gone():
                fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError as error:
            raise _unreadable(error, self._source) from error
        try:
            self._copy_content(fd, target, info)
        finally:
            os.close(fd)
        _set_times(target, info)
        self._files += 1

    def _copy_content(self, source: int, target: Path, info: os.stat_result) -> None:
        out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for count in copy_content(source, out):
                self._bytes += count
                if self._progress:
                    self._progress(self._bytes, self._total)
            os.fchmod(out, info.st_mode & 0o777 & _READ_ONLY)
        finally:
            os.close(out)


@contextmanager
def _may_be_gone() -> Iterator[None]:
    """A context that turns a missing file into _GoneError: editors, for example, delete files after the listing."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _GoneError from error


def _set_times(path: Path, info: os.stat_result) -> None:
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
