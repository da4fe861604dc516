"""The logs and records of a task attempt as they are on the node now. The task may have put anything there."""

from __future__ import annotations

import os
import stat

from kedge import untrusted
from kedge.light.contextlib import suppress
from kedge.light.types import Any, NamedTuple
from kedge.link import mirroring

_MOST_NAMES = 256  # in a folder; more are not a supervisor's
_MOST_RESTARTS = 100  # of a file that becomes shorter


class Piece(NamedTuple):
    """Bytes of a file. `new`: the first ones of a file that the controller does not have."""

    offset: int
    data: bytes
    new: bool


class MirroredFile:
    """An open file, of which the bytes before `offset` were sent; `sent`: the controller knows it by its path."""

    def __init__(self, path: str, fd: int, inode: tuple[int, int]) -> None:
        self.path, self.inode = path, inode
        self.offset = 0
        self.sent = False
        self._fd = fd
        self._size = 0
        self._restarts = 0

    def see_size(self) -> None:
        """Look how long it is now: more is not sent before the next look. A file that has become shorter is sent from
        its beginning."""
        with suppress(OSError):  # of a damaged disk: then there is nothing new
            self._size = os.fstat(self._fd).st_size
        if self._size < self.offset and self._restarts < _MOST_RESTARTS:
            self.offset, self.sent = 0, False
            self._restarts += 1

    def next_piece(self) -> Piece | None:
        """The next bytes; None if there are no more now."""
        data = b""
        with suppress(OSError):
            data = os.pread(self._fd, max(0, min(mirroring.PIECE, self._size - self.offset)), self.offset)
        if not data and self.sent:
            return None
        piece = Piece(self.offset, data, not self.sent)
        self.offset, self.sent = self.offset + len(data), True
        return piece

    def begins_with(self, stored: Any) -> bool:
        """Whether the file begins with what the controller has of one."""
        try:
            size, wanted = int(stored["size"]), stored["fingerprint"]
        except (KeyError, TypeError, ValueError):
            return False
        long_enough = 0 <= size <= os.fstat(self._fd).st_size
        return long_enough and mirroring.fingerprint(self._fd, size) == wanted

    def close(self) -> None:
        os.close(self._fd)


def present(folder: str) -> dict[str, tuple[int, int]]:
    """The device and inode of each file that is mirrored, by its path below the folder of the task attempt."""
    found = {}
    for above, names in _folders():
        with suppress(OSError):
            at = untrusted.open_folder(folder, above)
            try:
                for name in names if names is not None else _log_names(at):
                    with suppress(OSError):
                        info = os.lstat(name, dir_fd=at)
                        if stat.S_ISREG(info.st_mode):
                            found[f"{above}/{name}".lstrip("/")] = (info.st_dev, info.st_ino)
            finally:
                os.close(at)
    return found


def opened(folder: str, path: str) -> MirroredFile | None:
    """A file, if it can be read."""
    try:
        fd = untrusted.open_regular(folder, path)
    except OSError:
        return None
    info = os.fstat(fd)
    return MirroredFile(path, fd, (info.st_dev, info.st_ino))


def _folders() -> list[tuple[str, list[str] | None]]:
    single: dict[str, list[str]] = {}
    for path in mirroring.SINGLE_FILES:
        above, _, name = path.rpartition("/")
        single.setdefault(above, []).append(name)
    return [*single.items(), *((above, None) for above in mirroring.LOG_FOLDERS)]


def _log_names(at: int) -> list[str]:
    names = []
    with os.scandir(at) as entries:
        for entry in entries:
            if mirroring.is_log_name(entry.name):
                names.append(entry.name)
                if len(names) == _MOST_NAMES:
                    break
    return sorted(names)
