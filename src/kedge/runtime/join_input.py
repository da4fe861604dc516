"""Runs a program whose input and signals come as messages on this process's input (kedge.link.input_messages)."""

from __future__ import annotations

import os
import select
import signal

from kedge.contract import SHELL_KILLED
from kedge.light.contextlib import suppress
from kedge.light.types import Callable
from kedge.link import input_messages
from kedge.link.input_messages import InputReader

_BLOCK = 1 << 16
_MOST = 1 << 20  # bytes that the program has not read yet


def run(become: Callable[[], int]) -> int:
    """Run the program that `become` becomes, in a child, to its end. Returns its exit code as a shell shows it. Without
    whoever sends the messages, it is hung up."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(theirs, 0)
        os._exit(become())  # it returns if there is no such program
    os.close(theirs)
    os.set_blocking(ours, False)
    return _Relay(child, ours, woken).until_end()


class _Relay:
    """Passes the messages on to a child with the input `pipe`. `woken` is readable when a child may have ended."""

    def __init__(self, child: int, pipe: int, woken: int) -> None:
        self._child, self._pipe, self._woken = child, pipe, woken
        self._reader, self._left = InputReader(), b""
        self._is_open = True  # more messages may come
        self._has_end = False  # of the program's input

    def until_end(self) -> int:
        while True:
            readers = [self._woken, *([0] if self._is_open and len(self._left) < _MOST else [])]
            writers = [self._pipe] if self._left and self._pipe >= 0 else []
            ready, free, _ = select.select(readers, writers, [])
            if self._woken in ready:
                os.read(self._woken, _BLOCK)
                done, status = os.waitpid(self._child, os.WNOHANG)
                if done:
                    code = os.waitstatus_to_exitcode(status)
                    return code if code >= 0 else SHELL_KILLED - signal.SIGKILL - code
            if 0 in ready:
                self._take(os.read(0, _BLOCK))
            if free:
                self._write()
            if self._has_end and not self._left:
                self._close()

    def _take(self, data: bytes) -> None:
        if not data:
            self._is_open, self._has_end = False, True
            self._signal(signal.SIGHUP)
            return
        try:
            for kind, content in self._reader.feed(data):
                if kind == input_messages.DATA:
                    self._left += content
                elif kind == input_messages.END:
                    self._has_end = True
                else:
                    self._signal(int(content))
        except ValueError:
            self._take(b"")

    def _signal(self, number: int) -> None:
        with suppress(OSError):
            os.kill(self._child, number)

    def _write(self) -> None:
        try:
            self._left = self._left[os.write(self._pipe, self._left) :]
        except BlockingIOError:
            return
        except OSError:  # the program has closed its input
            self._left, self._has_end = b"", True

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
