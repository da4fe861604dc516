"""Connects to the container engine; if there is only the program podman, kedge starts its own Podman service."""

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

from kedge.engines.container.api import engine_address
from kedge.errors import CannotRun

if TYPE_CHECKING:
    from kedge.engines.container.api.client import Client

_PREFIX = "kedge-podman-"
PODMAN = "podman"  # the address that stands for kedge's own service
_START_SEC = 60.0
_STOP_SEC = 2.0  # the service waits for image pulls before it ends
_IDLE_SEC = 60  # after this a service whose kedge is gone ends by itself


def address(environment: Mapping[str, str] = os.environ) -> str:
    """The address of the engine: `unix://…`, or PODMAN. CannotRun names where kedge looked and what to install."""
    if found := engine_address.named(environment) or engine_address.usable(environment):
        return found
    if shutil.which("podman", path=environment.get("PATH")):
        return PODMAN
    raise engine_address.nothing(environment)


def client_class() -> type[Client]:
    """Loaded late, because it needs packages that take long to load, and a job may be refused before."""
    found: type[Client] = importlib.import_module("kedge.engines.container.api.client").Client
    return found


class Connection:
    """A context with the `client` of the engine at `address`. `restore` restarts kedge's own service if it has
    ended."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._service: _Service | None = None

    def __enter__(self) -> Connection:
        connect = client_class()
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
        """Restart kedge's own service, if it has ended."""
        if self._service:
            self._service.restore()


class _Service:
    """`podman system service` on a socket that only this user can reach."""

    def __init__(self) -> None:
        _sweep()
        self._folder = tempfile.mkdtemp(prefix=_PREFIX)
        self._lock = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # held as long as this kedge lives, even if its service ends
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
        except OSError as error:  # the program may have been removed
            raise CannotRun(f"podman cannot be started ({' '.join(command)}): {error}") from error
        end = time.monotonic() + _START_SEC
        while not _answers(self._socket):  # the socket appears a moment before the service listens
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                output = Path(f"{self._folder}/log").read_text(errors="replace").strip()
                raise CannotRun(f"podman cannot be started ({' '.join(command)}): {output or 'it does not answer'}")
            time.sleep(0.01)
        return process

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        Path(self._socket).unlink(missing_ok=True)
        with open(f"{self._folder}/log", "ab") as log:
            # In a new session, so that the terminal's Ctrl-C does not reach it. In its own folder, because it leaves
            # files in its working directory (`oom`, after a container ran out of memory).
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
    """Remove the folders of services whose kedge was killed; the services themselves end when idle."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_abandoned(folder)


def _remove_abandoned(folder: Path) -> None:
    """Remove the folder, unless its kedge is alive or has just made it and not locked it yet."""
    lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(lock)
        if found.st_uid == os.getuid() and time.time() - found.st_mtime > _START_SEC:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
