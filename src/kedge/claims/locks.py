"""Claims on what all users of a machine share: its TCP ports and its GPUs.

Every user has a private file in /tmp; a lock on byte N of it is a claim on resource N. No user can keep another from
claiming anything. Claims of other users are read from the kernel's list of locks (proc_locks(5)), which everybody may
read; the caller decides how to treat them. A claim is a lock of an open file description (fcntl(2), F_OFD_SETLK), so it
lasts as long as the controller or any supervisor that inherited the descriptor.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct

from kedge.light.contextlib import suppress
from kedge.light.types import Iterator, NamedTuple

FOLDER = "/tmp"  # noqa: S108  the files are safe there

_NAME = "kedge-claims-"
_NAMES = 10_000  # names to try: other users may have taken the first ones
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FLOCK = "hhqqi"  # struct flock: type, whence, start, length, pid
_KERNEL_LIST = "/proc/locks"
_LIST_LIMIT = 4 << 20  # bytes
Folder = str | os.PathLike[str]


class Claims:
    """The claims of one job attempt, or of a part of it. If no file can be made, `fd` is None: every claim succeeds and
    none is recorded."""

    def __init__(self, folder: Folder = FOLDER) -> None:
        self.fd = _own_file(folder)

    def take(self, number: int) -> bool:
        """Claim a resource; False if another job of this user has claimed it."""
        return self.fd is None or self._set(number, fcntl.F_WRLCK)

    def give_back(self, number: int) -> None:
        """Withdraw a claim on a resource that turned out to be in use."""
        if self.fd is not None:
            self._set(number, fcntl.F_UNLCK)

    def close(self) -> None:
        """Release all claims, except those of tasks that have inherited the descriptor."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def _set(self, number: int, kind: int) -> bool:
        assert self.fd is not None
        try:
            fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, number, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True


class OthersClaim(NamedTuple):
    """The numbers of the resources that another user claims."""

    user: int
    numbers: range


def of_others(folder: Folder = FOLDER) -> list[OthersClaim]:
    """The current claims of other users; none if the kernel does not list them."""
    owners = _owners(folder)
    return [OthersClaim(owners[inode], numbers) for inode, numbers in _locks() if inode in owners]


def _owners(folder: Folder) -> dict[int, int]:
    """The other users, by the inode of their claim files."""
    owners = {}
    try:
        with os.scandir(folder) as scan:
            for entry in scan:
                if entry.name.startswith(_NAME) and (owner := _user(entry)) != os.geteuid() and owner is not None:
                    owners[entry.inode()] = owner
    except OSError:
        return {}
    return owners


def _user(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except OSError:  # just removed
        return None


def _locks() -> Iterator[tuple[int, range]]:
    """The inode and the bytes of every OFD lock: `1: OFDLCK ADVISORY  WRITE -1 fe:00:2146408 15001 15001`."""
    try:
        with open(_KERNEL_LIST, encoding="utf-8") as file:
            lines = file.read(_LIST_LIMIT).splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) == 8 and fields[1] == "OFDLCK" and fields[6].isdecimal() and fields[7].isdecimal():
            yield int(fields[5].rpartition(":")[2]), range(int(fields[6]), int(fields[7]) + 1)


def _own_file(folder: Folder) -> int | None:
    """This user's file, made if necessary: the first name that no other user has taken. None if it cannot be made."""
    for number in range(_NAMES):
        path = os.path.join(folder, f"{_NAME}{os.geteuid()}{f'.{number}' if number else ''}")
        try:
            fd = _open(path)
        except OSError:
            if not os.path.lexists(path):
                return None
            continue
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            return fd
        os.close(fd)
    return None


def _open(path: str) -> int:
    """Open the file, made if necessary. An existing file is opened without O_CREAT, which fs.protected_regular may
    forbid."""
    with suppress(FileNotFoundError):
        return os.open(path, _FLAGS)
    with suppress(FileExistsError):  # just made by another job
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    return os.open(path, _FLAGS)
