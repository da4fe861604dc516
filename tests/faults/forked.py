"""`kedge` commands without the time that an interpreter takes to start: forked from a server that has loaded kedge.

It is a server of its own, because a process with threads, as pytest has, must not fork.
"""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import runpy
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from kedge import lazy_modules

_BODY = str(Path(__file__).with_name("forked_command.py"))  # by its path: under pytest, this package has another name
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "kedge.jobs.submission",
        "kedge.engines.local.engine",
        "kedge.engines.container.engine",
        "kedge.engines.container.api.client",
        *(place.partition(":")[0] for place in lazy_modules.COMMANDS.values()),
    ]
)
_alive: weakref.WeakSet[Forked] = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    """Kill what is left when this process exits. Before that of `multiprocessing.util`, which is registered above and
    waits for all of them, however long they take."""
    for forked in list(_alive):
        if forked.poll() is None:
            forked.kill()


class Forked:
    """As much of a subprocess.Popen as a scene needs."""

    def __init__(self, args: Sequence[str], folder: Path, environment: Mapping[str, str], out: Path, err: Path) -> None:
        given = {"args": list(args), "folder": folder, "environment": dict(environment), "files": (out, err)}
        self._process = _SERVER.Process(target=runpy.run_path, args=(_BODY, given, "__main__"))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        _alive.add(self)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("kedge", timeout or 0.0)
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


class Captured(Forked):
    """A command whose output is caught, as by `subprocess.run`."""

    def __init__(self, args: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._outputs = [os.memfd_create(name) for name in ("out", "err")]
        out, err = (Path(f"/proc/{os.getpid()}/fd/{fd}") for fd in self._outputs)
        super().__init__(args, folder, environment, out, err)

    def finish(self, timeout: float) -> tuple[int, str, str]:
        """Wait for the end; the exit code and what was printed to stdout and stderr. subprocess.TimeoutExpired, which
        says what was printed until then."""
        try:
            code = self.wait(timeout)
        except subprocess.TimeoutExpired as error:
            error.add_note("\n".join(["it has printed:", *map(_text, self._outputs)]))
            raise
        out, err = map(_text, self._outputs)
        return code, out, err


def _text(fd: int) -> str:
    text = os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")
    os.close(fd)
    return text.replace("\r\n", "\n").replace("\r", "\n")  # like subprocess
