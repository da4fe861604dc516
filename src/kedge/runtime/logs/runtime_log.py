"""runtime.log: messages of the runtime and output of the hooks, with the time on every line."""

from __future__ import annotations

import os
import time

from kedge.own_files import Buffer, open_own, write_all
from kedge.runtime.files import Faults
from kedge.runtime.logs.console import ConsoleCopy
from kedge.runtime.logs.mask import Finder, Mask, masked
from kedge.runtime.logs.times import TimeIndex

_DATE = "%a %b %e %H:%M:%S %Z %Y"  # setlocale is never called, so names are those of the C locale
_LONGEST_LINE = 1 << 20  # bytes; longer lines are split


class RuntimeLog:
    """Writes lines to the file and, if there is one, to the console. After a failed write (noted in `faults`) nothing
    more is written to the file. `secrets` are masked."""

    def __init__(self, path: str, faults: Faults, console: ConsoleCopy | None = None) -> None:
        self._path = path
        self._faults = faults
        self._console = console
        self.secrets: Finder | None = None
        self._second = -1
        self._prefix = b""
        self._fd: int | None = open_own(path, os.O_WRONLY | os.O_APPEND, 0o644)
        self._size = os.fstat(self._fd).st_size
        self._times = TimeIndex(*os.path.split(path))

    def hide(self, secrets: Finder | None) -> None:
        """Mask these secrets from now on."""
        self.secrets = secrets

    def mask(self) -> Mask | None:
        """A new mask, for one more stream that is copied into this log."""
        return Mask(self.secrets) if self.secrets else None

    def info(self, text: str) -> None:
        """Log what the runtime does."""
        self._message("INFO", text)

    def warning(self, text: str) -> None:
        """Log a problem that does not make the task fail."""
        self._message("WARNING", text)

    def error(self, text: str) -> None:
        """Log the problem that made the task fail."""
        self._message("ERROR", text)

    def lines(self, data: bytes) -> None:
        """Write whole lines unmasked, with the date before each. `data` ends with a newline."""
        prefix = self._dated()
        self._put(prefix + data[:-1].replace(b"\n", b"\n" + prefix) + b"\n")

    def text(self, text: str) -> None:
        """Log a text of several lines, such as a traceback, with the date before each line."""
        self.lines(self.masked(text.removesuffix("\n") + "\n").encode(errors="replace"))

    def masked(self, text: str) -> str:
        """The text with its secrets masked."""
        return masked(text.encode(errors="surrogateescape"), self.secrets).decode(errors="surrogateescape")

    def _message(self, level: str, text: str) -> None:
        self.lines(f"[{level}] {self.masked(text)}\n".encode(errors="surrogateescape"))

    def _dated(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._prefix = f"[{time.strftime(_DATE, time.localtime(second))}] [openpai-runtime] ".encode()
        return self._prefix

    def _put(self, data: Buffer) -> None:
        if self._console:
            self._console.write(data)
        if self._fd is None:
            return
        self._times.mark(self._size)
        self._size += len(data)
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._fd = None  # not closed: the end of the process does that
            self._faults.note(self._path, error)


class LineFeed:
    """Takes the pieces of one stream (from a kedge.runtime.logs.pipes.Pipe) and logs its lines. `last` is the last line
    that is not blank."""

    def __init__(self, log: RuntimeLog) -> None:
        self._log = log
        self._mask = log.mask()
        self._unfinished = b""
        self.last = b""

    def feed(self, data: bytearray, length: int) -> None:
        """Take the first `length` bytes of `data`, and log every line that they complete."""
        piece = bytes(memoryview(data)[:length])
        self._add(self._mask.feed(piece) if self._mask else piece)

    def finish(self) -> None:
        """End of the stream: log a last line without a newline."""
        if self._mask:
            self._add(self._mask.finish())
        if self._unfinished:
            self._log_lines(self._unfinished + b"\n")
            self._unfinished = b""

    def _add(self, piece: bytes) -> None:
        whole, newline, self._unfinished = (self._unfinished + piece).rpartition(b"\n")
        if newline:
            self._log_lines(whole + newline)
        if len(self._unfinished) >= _LONGEST_LINE:
            self._log_lines(self._unfinished + b"\n")
            self._unfinished = b""

    def _log_lines(self, lines: bytes) -> None:
        self._log.lines(lines)
        self.last = lines.rstrip().rpartition(b"\n")[2] or self.last
