"""Copies files and folders between a folder that tasks can write and one of the user.

A file appears under its name only when it is complete, and so does a new folder. Links are not followed; one that
leads out of the copied folder is skipped, and so is everything but files, folders and links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress

from kedge.errors import InputError
from kedge.file_copies import copy_content, stored_size
from kedge.own_files import clear
from kedge.runs import inner_links
from kedge.runs.outputs import DEEPEST, entries
from kedge.terminal_text import one_line
from kedge.untrusted import FOLDER

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
_GROWN = 1 << 20  # bytes that a file may have grown by when its copy ends
_ALL_ACCESS = 0o777
Progress = Callable[[int, int], None]  # bytes copied, and in total
_PARTIAL = ".kedge-cp"  # how names of incomplete copies end


class FileTransfer:
    """Copies entries and counts them. `notes` name what was skipped or has changed meanwhile, `failures` what could not
    be read.

    `shared`: what is copied gets the owner of the folder that it is put into, if this user may do that, and at least
    the access rights of that folder, so that tasks of another user can use it. Otherwise the rights are those of the
    source, without those that the umask takes. `roots`: what the copied folder is called by its own absolute links,
    which become relative. `progress` is called while a file is copied.
    """

    def __init__(
        self, *, shared: bool, roots: Sequence[str] = (), progress: Progress = lambda done, total: None
    ) -> None:
        self.files = self.bytes = 0
        self.notes: list[str] = []
        self.failures: list[str] = []
        self._shared, self._roots, self._progress = shared, roots, progress
        self._total = 0
        self._umask = os.umask(0o077)
        os.umask(self._umask)

    def entry(self, source: int, folder: int, name: str, path: str) -> None:
        """Copy what an open descriptor is to `name` in an open folder, in place of a file of that name and into a
        folder of that name. `path` stands for it in messages. InputError for another kind of entry, and for a file in
        place of a folder or the reverse; OSError if it cannot be written."""
        mode = os.fstat(source).st_mode
        self._total = _size(source)
        if stat.S_ISDIR(mode):
            self._folder(source, folder, name, path, 0)
        elif stat.S_ISREG(mode):
            self._file(source, folder, name, path)
        else:
            raise InputError(f"{path} is neither a file nor a folder")

    def _folder(self, source: int, folder: int, name: str, path: str, depth: int) -> None:
        try:
            target = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        except FileNotFoundError:
            self._new_folder(source, folder, name, path, depth)
            return
        except OSError as error:
            raise _misplaced(path, name, error) from error
        try:
            self._content(source, target, path, depth)
        finally:
            os.close(target)

    def _new_folder(self, source: int, folder: int, name: str, path: str, depth: int) -> None:
        partial = _partial_name() if depth == 0 else name  # below a new folder everything is unseen
        try:  # a signal may come at any time from here on
            os.mkdir(partial, 0o700, dir_fd=folder)
            target = os.open(partial, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            try:
                self._set_access(target, folder, os.fstat(source).st_mode | stat.S_IRWXU)
                self._content(source, target, path, depth)
            finally:
                os.close(target)
            if partial != name:
                os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            if partial != name:
                clear(f"/proc/self/fd/{folder}/{partial}")
            raise

    def _content(self, source: int, target: int, path: str, depth: int) -> None:
        if depth >= DEEPEST:
            self.notes.append(f"{path} is nested too deeply: its content is skipped")
            return
        for name, info in entries(source):
            if name.endswith(_PARTIAL):  # perhaps of this copy, if a folder is copied into itself
                continue
            inner = f"{path}{'' if path.endswith(':') else '/'}{name}"
            if stat.S_ISLNK(info.st_mode):
                self._link(source, target, name, inner, depth)
            elif stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode):
                self._child(source, target, name, inner, depth)
            else:
                self.notes.append(f"{inner} is {_kind(info.st_mode)}: skipped")

    def _child(self, source: int, target: int, name: str, path: str, depth: int) -> None:
        try:
            fd = os.open(name, _READ, dir_fd=source)
        except OSError as error:
            if error.errno == errno.ENOENT:
                self.notes.append(f"{path} was deleted before it was copied")
            else:
                self.failures.append(f"{path} cannot be read: {error.strerror}")
            return
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                self._folder(fd, target, name, path, depth + 1)
            elif stat.S_ISREG(mode):  # otherwise it was replaced meanwhile
                self._file(fd, target, name, path)
        finally:
            os.close(fd)

    def _link(self, source: int, target: int, name: str, path: str, depth: int) -> None:
        try:
            to = os.readlink(name, dir_fd=source)
        except OSError:  # it was replaced meanwhile
            return
        to = inner_links.of_copy(to, self._roots, depth)
        if not inner_links.leads_inside(to, depth):
            self.notes.append(f"{path} is a link that leads out of the copied folder, to {to}: skipped")
            return
        partial = _partial_name()
        os.symlink(to, partial, dir_fd=target)
        try:
            os.rename(partial, name, src_dir_fd=target, dst_dir_fd=target)
        except OSError as error:
            os.unlink(partial, dir_fd=target)
            raise _misplaced(path, name, error) from error

    def _file(self, source: int, folder: int, name: str, path: str) -> None:
        before = os.fstat(source)
        with _NewFile(folder, name, path) as new:
            copied = 0
            for count in copy_content(source, new.fd):
                copied += count
                self._progress(self.bytes + copied, self._total)
                if copied > before.st_size + _GROWN:  # a task may write for ever
                    break
            self._set_access(new.fd, folder, before.st_mode)
            os.utime(new.fd, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.files += 1
        self.bytes += copied
        after = os.fstat(source)
        if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, before.st_size):
            self.notes.append(f"{path} was written to while it was copied")

    def _set_access(self, fd: int, folder: int, mode: int) -> None:
        mode &= _ALL_ACCESS
        if self._shared:
            above = os.fstat(folder)
            mode |= above.st_mode & (_ALL_ACCESS if stat.S_ISDIR(os.fstat(fd).st_mode) else 0o666)
            with suppress(PermissionError):
                os.fchown(fd, above.st_uid, above.st_gid)
        else:
            mode &= ~self._umask
        os.fchmod(fd, mode)


class _NewFile:
    """A context for a file that gets its name at the end, in place of another one. Until then it has none, where the
    file system can do that, so that even a killed process leaves nothing."""

    def __init__(self, folder: int, name: str, path: str) -> None:
        self._folder, self._name, self._path = folder, name, path
        self._partial = ""
        try:
            self.fd = os.open(".", _WRITE | os.O_TMPFILE, 0o600, dir_fd=folder)
        except (OSError, AttributeError) as error:  # AttributeError: not on Linux
            if isinstance(error, OSError) and error.errno not in _NO_UNNAMED:
                raise
            self._partial = _partial_name()
            self.fd = os.open(self._partial, _WRITE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)

    def __enter__(self) -> _NewFile:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None:
                self._publish()
        except OSError as problem:
            raise _misplaced(self._path, self._name, problem) from problem
        finally:
            os.close(self.fd)
            if self._partial:
                with suppress(FileNotFoundError):
                    os.unlink(self._partial, dir_fd=self._folder)

    def _publish(self) -> None:
        if not self._partial:
            partial = _partial_name()
            descriptors = os.open("/proc/self/fd", FOLDER)
            try:  # with both folders given, Python follows the link
                os.link(str(self.fd), partial, src_dir_fd=descriptors, dst_dir_fd=self._folder)
            finally:
                os.close(descriptors)
            self._partial = partial
        os.rename(self._partial, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)


def _size(fd: int, depth: int = 0) -> int:
    """The bytes that a copy of an open file or folder takes."""
    info = os.fstat(fd)
    if not stat.S_ISDIR(info.st_mode):
        return stored_size(info)
    total = 0
    for name, entry in entries(fd) if depth < DEEPEST else ():
        if stat.S_ISREG(entry.st_mode):
            total += stored_size(entry)
        elif stat.S_ISDIR(entry.st_mode):
            with suppress(OSError):  # the copy will report it
                inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=fd)
                try:
                    total += _size(inner, depth + 1)
                finally:
                    os.close(inner)
    return total


def _partial_name() -> str:
    return f".{os.urandom(8).hex()}{_PARTIAL}"


def _misplaced(path: str, name: str, error: OSError) -> Exception:
    """The error for a target of another kind, or the given one."""
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return InputError(f"{one_line(path)} is a folder, but its target {one_line(name)} is none")
    if error.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
        return InputError(f"{one_line(path)} is not a folder, but its target {one_line(name)} is one")
    return error


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"
