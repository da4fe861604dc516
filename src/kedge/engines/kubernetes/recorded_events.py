"""How much of a run's events is in its decision log: RUN/cluster/recorded-events, a number of bytes. A second driver
has no more, so nobody is shown more: it may decide differently from there on."""

from __future__ import annotations

import os

from kedge import untrusted
from kedge.light.contextlib import suppress
from kedge.own_files import open_own

FILE = "cluster/recorded-events"
_DIGITS = 20


class RecordedSize:
    """The file in the run folder `folder`, for its only writer."""

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{FILE}"
        self._fd = -1
        self._size = -1

    def tell(self, size: int) -> None:
        """So many bytes are recorded now. In one write to the same place, which works on a full disk, too."""
        if size == self._size:
            return
        self._size = size
        with suppress(OSError):  # then all events are shown
            if self._fd < 0:
                os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
                self._fd = open_own(self._path, os.O_WRONLY)
            os.pwrite(self._fd, f"{size:0{_DIGITS}}".encode(), 0)


def recorded(folder: str) -> int | None:
    """How many bytes of the events are recorded; None: nobody has told."""
    with suppress(OSError, ValueError):
        return int(untrusted.read(folder, FILE, _DIGITS))
    return None
