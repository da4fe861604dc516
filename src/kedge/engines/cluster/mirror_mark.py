"""How far a mirror has come: the number of the last message that was stored. It outlives the controller."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kedge.link.mirroring import MARK
from kedge.own_files import open_own

_NUMBER = 20  # digits


class MirrorMark:
    """A file in the folder of the task attempt with the id of a mirror and a number. It is written after what the
    number counts. If a controller dies in between, one message is stored again, which changes nothing. `skipped` is
    what END said of outputs: their number and bytes; None before it. `dropped` are the bytes that were not stored until
    then: before END, the agent sends them to another controller again."""

    def __init__(self, folder: Path) -> None:
        self._fd = open_own(folder / MARK, os.O_RDWR)
        self._mirror, self._number = "", 0
        self.skipped: tuple[int, int] | None = None
        self.dropped = 0
        with suppress(ValueError):
            number, mirror, *end = os.pread(self._fd, 200, 0).decode("ascii").split()
            self._mirror, self._number = mirror, int(number)
            self.skipped = (int(end[0]), int(end[1])) if end else None
            self.dropped = int(end[2]) if end[2:] else 0

    def has(self, mirror: str, number: int) -> bool:
        """Whether a message was stored."""
        return mirror == self._mirror and number <= self._number

    def set(self, mirror: str, number: int) -> None:
        """A message was stored."""
        if mirror != self._mirror:
            os.ftruncate(self._fd, 0)
        self._mirror, self._number = mirror, number
        with suppress(OSError, ValueError):  # no room on the disk: a later controller may store some again
            end = "".join(f" {each}" for each in (*self.skipped, self.dropped)) if self.skipped else ""
            os.pwrite(self._fd, f"{number:0{_NUMBER}d} {mirror}{end}\n".encode("ascii"), 0)

    def close(self) -> None:
        os.close(self._fd)
