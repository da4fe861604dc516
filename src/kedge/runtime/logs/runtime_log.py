"""runtime.log: what the runtime and the hooks have to say, a time on every line."""

from __future__ import annotations

import os
import time

from kedge.own_files import open_own
from kedge.runtime.files import Buffer, Faults, write_all
from kedge.runtime.logs.console import ConsoleCopy
from kedge.runtime.logs.mask import Finder, Mask, masked

_DATE = "%a %b %e %H:%M:%S %Z %Y"  # no setlocale happens here, so this is the C locale's
_LONGEST_LINE = 1 << 20  # bytes; longer ones are cut


class RuntimeLog:
    """Lines go to the file and, if there is one, to the console. After a failed write (noted in `faults`) the file is
    left alone. `secrets` are masked."""

    def __init__(self, path: str, faults: Faults, console: ConsoleCopy | None = None) -> None:
        self._path = path
        self._faults = faults
        self._console = console
        self.secrets: Finder | None = None
        self._second = -1
        self._prefix = b""
        self._fd: int | None = open_own(path, os.O_WRONLY | os.O_APPEND, 0o644)

    def hide(self, secrets: Finder | None) -> None:
        """Mask these from now on."""
        self.secrets = secrets

    def mask(self) -> Mask | None:
        """A mask for one more stream that flows in here."""
        return Mask(self.secrets) if self.secrets else None

    def info(self, text: str) -> None:
        """One of the runtime's own messages."""
        self._say("INFO", text)

    def warning(self, text: str) -> None:
        """A message about something that the user should know and need not act on at once."""
        self._say("WARNING", text)

    def error(self, text: str) -> None:
        """A message about what made the task fail."""
        self._say("ERROR", text)

    def lines(self, data: bytes) -> None:
        """Whole lines, as they are, each behind the date. `data` ends with a newline."""
        prefix = self._dated()
        self._put(prefix + data[:-1].replace(b"\n", b"\n" + prefix) + b"\n")

    def text(self, text: str) -> None:
        """Lines that nobody has written for a log, such as a traceback, each behind the date."""
        self.lines(self.masked(text.removesuffix("\n") + "\n").encode(errors="replace"))

    def masked(self, text: str) -> str:
        """The text without the secrets."""
        return masked(text.encode(errors="surrogateescape"), self.secrets).decode(errors="surrogateescape")

    def _say(self, level: str, text: str) -> None:
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
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._fd = None  # left to the end of the process: closing can add nothing
            self._faults.note(self._path, error)


class LineFeed:
    """Takes the pieces of one stream (as kedge.runtime.logs.pipes gives them) and logs its lines. `last` is the last
    of them that is not blank."""

    def __init__(self, log: RuntimeLog) -> None:
        self._log = log
        self._mask = log.mask()
        self._unfinished = b""
        self.last = b""

    def feed(self, data: bytearray, length: int) -> None:
        """Log every line that is complete with the first `length` bytes of `data`."""
        piece = bytes(memoryview(data)[:length])
        self._take(self._mask.feed(piece) if self._mask else piece)

    def finish(self) -> None:
        """Log a last line without a newline, too."""
        if self._mask:
            self._take(self._mask.finish())
        if self._unfinished:
            self._say(self._unfinished + b"\n")
            self._unfinished = b""

    def _take(self, piece: bytes) -> None:
        whole, newline, self._unfinished = (self._unfinished + piece).rpartition(b"\n")
        if newline:
            self._say(whole + newline)
        if len(self._unfinished) >= _LONGEST_LINE:
            self._say(self._unfinished + b"\n")
            self._unfinished = b""

    def _say(self, lines: bytes) -> None:
        self._log.lines(lines)
        self.last = lines.rstrip().rpartition(b"\n")[2] or self.last
