"""Commands on terminals of their own, as the foreground of a session, and the keys pressed there."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import threading
from contextlib import suppress

from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
CTRL_C, DETACH = b"\x03", b"\x1c"


class Terminal:
    """A command that leads the session of a new terminal. `seen` is what it has printed, without
    colours. Call `code` at the end."""

    def __init__(self, kedge: Kedge, *args: object) -> None:
        self._printed = ""
        argv = kedge.argv(args)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(kedge.folder)
            os.execve(argv[0], argv, kedge.environment)
        self._woken, self._wake = os.pipe()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # this is how a terminal reports its end
            while self.fd in select.select([self.fd, self._woken], [], [])[0]:
                self._printed += os.read(self.fd, 1 << 16).decode(errors="replace")

    @property
    def seen(self) -> str:
        return _COLOUR.sub("", self._printed)

    def shows(self, text: str) -> None:
        """Wait until it has printed this."""
        wait_until(lambda: text in self.seen or not self._reader.is_alive(), TIMEOUT, f"{text!r} in {self.seen}")
        assert text in self.seen, self.seen

    def press(self, key: bytes) -> None:
        os.write(self.fd, key)

    def close(self) -> None:
        """Close the terminal, as its window or its connection would. Its programs get SIGHUP."""
        os.write(self._wake, b"x")
        self._reader.join()
        for fd in (self.fd, self._woken, self._wake):
            os.close(fd)

    def code(self, *, closed: bool = False) -> int:
        """Wait for its end. Returns its exit code, negative for a signal."""
        try:
            status = wait_until(lambda: _ended(self.pid), TIMEOUT, f"the end after {self.seen}")[1]
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)
            raise
        if not closed:
            self._reader.join()
            self.close()
        return os.waitstatus_to_exitcode(status)


def _ended(pid: int) -> tuple[int, int] | None:
    """The pid and the status of a child that has ended."""
    found = os.waitpid(pid, os.WNOHANG)
    return found if found[0] else None
