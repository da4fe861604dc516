"""A connection to the container engine; where there is only the program podman, with a service of kedge's own."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kedge.engines.container import engine_address
from kedge.errors import CannotRun

if TYPE_CHECKING:
    from kedge.engines.container.client import Client

_PREFIX = "kedge-podman-"
PODMAN = "podman"  # as an address: a service of one's own
_START_SEC = 60.0
_STOP_SEC = 2.0  # it waits for whoever still pulls an image
_IDLE_SEC = 60  # after which a service that lost its kedge ends by itself


def address(environment: Mapping[str, str] = os.environ) -> str:
    """Where the engine is: `unix://…`, or PODMAN. CannotRun says what was looked for and what to install."""
    if found := engine_address.named(environment) or engine_address.usable(environment):
        return found
    if shutil.which("podman", path=environment.get("PATH")):
        return PODMAN
    raise engine_address.nothing(environment)


class Connection:
    """A context: the client of the engine at `address`. `restore` makes a service of its own answer again."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._service: _Service | None = None

    def __enter__(self) -> Connection:
        # Loading the package takes long, and only who runs containers needs it.
        connect = importlib.import_module("kedge.engines.container.client").Client
        if self.address == PODMAN:
            self._service = _Service()
        try:
            self.client: Client = connect(self._service.address if self._service else self.address)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if client := getattr(self, "client", None):
            client.close()
        if self._service:
            self._service.close()

    def restore(self) -> None:
        """Start the own service again, if it has ended."""
        if self._service:
            self._service.restore()


class _Service:
    """`podman system service` on a socket that only this user can reach."""

    def __init__(self) -> None:
        _sweep()
        self._folder = tempfile.mkdtemp(prefix=_PREFIX)
        self._lock = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # as long as this kedge lives, whether its service does or not
        self._socket = f"{self._folder}/socket"
        self.address = f"unix://{self._socket}"
        try:
            self._process = self._start()
        except BaseException:
            self._remove()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        command = ["podman", "system", "service", "--time", str(_IDLE_SEC), self.address]
        try:
            process = self._spawn(command)
        except OSError as error:  # the program may be gone by now
            raise CannotRun(f"podman cannot be started ({' '.join(command)}): {error}") from error
        end = time.monotonic() + _START_SEC
        while not _answers(self._socket):  # the socket is there a moment before anybody listens
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                said = Path(f"{self._folder}/log").read_text(errors="replace").strip()
                raise CannotRun(f"podman cannot be started ({' '.join(command)}): {said or 'it does not answer'}")
            time.sleep(0.01)
        return process

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        Path(self._socket).unlink(missing_ok=True)
        with open(f"{self._folder}/log", "ab") as log:
            # A session of its own: the terminal's Ctrl-C is not for it. A folder of its own: it leaves files (`oom`,
            # after a container that needed too much memory) in the one that it was started in.
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self._folder
            )

    def restore(self) -> None:
        if self._process.poll() is not None:
            self._process = self._start()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SEC)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):  # its path may be too long
        return probe.connect_ex(path) == 0
    return False


def _sweep() -> None:
    """Remove what services leave behind whose kedge was killed: they end by themselves, their folders do not."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_abandoned(folder)


def _remove_abandoned(folder: Path) -> None:
    """Unless its kedge lives, or has made it just now and not locked it yet."""
    lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(lock)
        if found.st_uid == os.getuid() and time.time() - found.st_mtime > _START_SEC:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
