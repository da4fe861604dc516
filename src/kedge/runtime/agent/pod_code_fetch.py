"""Fetches the job's code from the controller, piece by piece, where it is too large for anything else."""

from __future__ import annotations

import os
import threading
import time

from kedge.light.types import Any, Callable, Mapping
from kedge.link import pod_folders
from kedge.link.frames import LinkFrame
from kedge.own_files import clear, write_all
from kedge.runtime.agent import pod_code
from kedge.runtime.process.loop import Loop

_FOLDER = f"{pod_folders.AGENT_FOLDER}/code"
_FILE = "code.tar.gz"
_LOOK_SEC = 0.1


class CodeFetch:
    """`offered` is {"name": the folder of the code that the task has, "shared": see prepare-pod}. `want` asks for the
    bytes at an offset, and `then` is called when all is unpacked, or `error` says why not."""

    def __init__(
        self, root: str, offered: Mapping[str, Any], loop: Loop, want: Callable[[int], None], then: Callable[[], None]
    ) -> None:
        self.done, self.error = False, ""
        self._root, self._name, self._shared = root, str(offered["name"]), bool(offered["shared"])
        self._loop, self._want, self._then = loop, want, then
        self._folder, self._offset = root + _FOLDER, 0
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Ask for what comes next, if anything is missing. Asked twice, it is taken once."""
        if not self.done and self._thread is None:
            self._want(self._offset)

    def take(self, frame: LinkFrame) -> None:
        """Take a piece, if it is the next one. KeyError, TypeError: it is none."""
        if self.done or self._thread or frame.header["offset"] != self._offset:
            return
        try:
            self._write(frame.body)
        except OSError as error:
            self._end(f"the job's code cannot be written: {error.strerror}")
            return
        self._offset += len(frame.body)
        if self._offset < frame.header["size"]:
            self.ask()
        else:  # it may take longer than the controller waits for a sign of life
            self._thread = threading.Thread(target=self._unpack, daemon=True)
            self._thread.start()
            self._look()

    def _write(self, data: bytes) -> None:
        if not self._offset:
            clear(self._folder)
            os.makedirs(self._folder)
        fd = os.open(f"{self._folder}/{_FILE}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)

    def _unpack(self) -> None:
        try:
            pod_code.install(self._root, self._folder, self._name, shared=self._shared)
            clear(self._folder)
        except pod_code.CodeDamaged as error:
            self.error = str(error)
        except OSError as error:
            self.error = f"the job's code cannot be unpacked: {error.strerror}: {error.filename}"

    def _look(self) -> None:
        if self._thread and self._thread.is_alive():
            self._loop.alarm(time.monotonic() + _LOOK_SEC, self._look)
        else:
            self._end(self.error)

    def _end(self, error: str) -> None:
        self.done, self.error = True, error
        self._then()
