"""The log of the init phase. Its lines look like those of Python's logging in OpenPAI's init programs:

2021-02-01 02:54:48,123 - INFO - image_checker.py:33 - the image exists
"""

from __future__ import annotations

import os
import sys
import time

from kedge.light.types import Sequence
from kedge.own_files import open_own

_STDERR = 2


class InitLog:
    """Writes each line to all of its files, at once and unbuffered. A file that cannot be written is left out: a full
    disk under the logs must not decide whether a task starts."""

    def __init__(self, files: Sequence[int] = (_STDERR,)) -> None:
        self._files = tuple(files)

    def info(self, message: str) -> None:
        """What was done."""
        self._line("INFO", message)

    def warning(self, message: str) -> None:
        """A problem that does not stop the init phase."""
        self._line("WARNING", message)

    def error(self, message: str) -> None:
        """Why a program fails."""
        self._line("ERROR", message)

    def write(self, data: bytes) -> None:
        """Output as it is: of a program that was started, or a file that is shown."""
        for file in self._files:
            _write_all(file, data)

    def with_file(self, path: str) -> InitLog:
        """The same log, which also appends to another file. The file stays open until the process ends. Containers of
        tasks can write to its folder, so a link or a pipe in its place is deleted."""
        try:
            opened = open_own(path, os.O_WRONLY | os.O_APPEND, 0o644)
        except OSError as error:
            self.warning(f"{path} cannot be written: {error.strerror}")
            return self
        if any(_is_same(file, opened) for file in self._files):  # the pod's command may redirect the output to it
            os.close(opened)
            return self
        return InitLog((*self._files, opened))

    def _line(self, level: str, message: str) -> None:
        now = time.time_ns() // 1_000_000
        seconds, milliseconds = divmod(now, 1000)
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
        caller = sys._getframe(2)
        place = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
        text = f"{when},{milliseconds:03} - {level} - {place} - {message}\n"
        self.write(text.encode("utf-8", "backslashreplace"))


def _is_same(first: int, second: int) -> bool:
    try:
        return os.path.sameopenfile(first, second)
    except OSError:  # the first one is closed
        return False


def _write_all(file: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        pass
