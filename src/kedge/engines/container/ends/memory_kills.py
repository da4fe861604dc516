"""Detects out-of-memory kills in containers, by their control groups while they run: not every engine reports such
kills, and the group is gone when the container ends."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")
_PAUSE_SEC = 0.02  # between two looks: a group of version 2 at its limit sends events all the time


class MemoryKill(NamedTuple):
    """An out-of-memory kill in a container. `at` is from time.monotonic(); `peak` is the container's largest memory use
    so far, in bytes, if known; `own_limit`: it had reached its own limit (otherwise the machine ran out of memory)."""

    at: float
    peak: int | None
    own_limit: bool


class MemoryKills:
    """Watches the control groups of containers, with one descriptor each and one thread in all. Safe for several
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}  # by the container's name
        self._names: dict[int, str] = {}  # by the group's descriptor, while it is watched
        self._found: dict[str, MemoryKill] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
        if sys.platform == "linux":
            self._poll, self._wake = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC)
            self._poll.register(self._wake, select.EPOLLIN)

    def start(self) -> None:
        """Start the thread; before that nothing is watched. Nothing happens where there are no control groups."""
        if sys.platform == "linux":
            self._thread.start()

    def watch(self, name: str, identity: str, pid: int) -> None:
        """Watch the container with this name, engine id and first process from now on. Does nothing if its group cannot
        be watched: it is on another machine, or belongs to version 1 and the user is not root."""
        with suppress(OSError, ValueError), self._lock:
            if self._thread.is_alive() and name not in self._groups and (group := find(identity, pid)):
                try:
                    self._poll.register(group.fd, select.EPOLLPRI if group.is_v2 else select.EPOLLIN)
                except OSError:  # the kernel limits the number
                    os.close(group.fd)
                    raise
                self._groups[name], self._names[group.fd] = group, name

    def watches(self, name: str) -> bool:
        """Whether a kill in this container would have been seen."""
        return name in self._groups

    def of(self, name: str) -> MemoryKill | None:
        """The last kill seen in this container, if any."""
        with self._lock:
            if group := self._groups.get(name):
                self._look(group)
            return self._found.get(name)

    def forget(self, name: str) -> None:
        """Stop watching a container that has ended."""
        with self._lock:
            self._found.pop(name, None)
            if group := self._groups.pop(name, None):
                self._unregister(group)
                os.close(group.fd)

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        if sys.platform != "linux":
            return
        if self._thread.is_alive():
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        for name in list(self._groups):
            self.forget(name)
        self._poll.close()
        os.close(self._wake)

    def _run(self) -> None:
        while not self._over.is_set():
            ready = self._poll.poll()
            with self._lock:
                for group in [self._groups[self._names[fd]] for fd, _ in ready if fd in self._names]:
                    self._look(group)
            self._over.wait(_PAUSE_SEC)

    def _look(self, group: _Group) -> None:
        if name := self._names.get(group.fd):
            try:
                if kill := group.look():
                    self._found[name] = kill
            except OSError:  # the group is gone
                self._unregister(group)

    def _unregister(self, group: _Group) -> None:
        if self._names.pop(group.fd, None):
            self._poll.unregister(group.fd)


class _Group:
    """A control group of version 2: the descriptor of `memory.events` signals when it must be read again."""

    is_v2 = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kills = 0
        self.fd = os.open(folder / "memory.events", os.O_RDONLY | os.O_CLOEXEC)

    def look(self) -> MemoryKill | None:
        """The kill since the last call, if any. OSError if the group is gone."""
        table = dict(line.split() for line in os.pread(self.fd, 4096, 0).splitlines())
        kills, self._kills = int(table[b"oom_kill"]) - self._kills, int(table[b"oom_kill"])
        own_limit = int(table.get(b"oom", 0)) > 0
        return MemoryKill(time.monotonic(), _number(self._folder / "memory.peak"), own_limit) if kills else None


class _GroupV1(_Group):
    """A control group of version 1: an eventfd counts how often the limit was reached and nothing could be freed, upon
    which the kernel kills. It also counts once when the group is removed."""

    is_v2 = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            control = os.open(folder / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
            try:
                (folder / "cgroup.event_control").write_text(f"{self.fd} {control}")
            finally:
                os.close(control)
        except BaseException:
            os.close(self.fd)
            raise

    def look(self) -> MemoryKill | None:
        try:
            times = os.eventfd_read(self.fd)
        except BlockingIOError:
            return None
        exists = (self._folder / "memory.oom_control").exists()
        if not exists and times == 1:
            raise FileNotFoundError(self._folder)
        return MemoryKill(time.monotonic(), _number(self._folder / "memory.max_usage_in_bytes"), own_limit=True)


def find(identity: str, pid: int, root: Path = _ROOT) -> _Group | None:
    """The container's group, whose path contains the container's id. If it does not, the container runs on another
    machine, as with an engine for macOS, and the pid here is another process: None."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        parts = path.strip("/").split("/")
        ours = next((n for n, part in enumerate(parts, 1) if identity in part), None)
        if ours is None or (controllers and "memory" not in controllers.split(",")):
            continue
        folder = Path(root, *([] if not controllers else ["memory"]), *parts[:ours])
        if (folder / ("memory.events" if not controllers else "memory.oom_control")).exists():
            return _GroupV1(folder) if controllers else _Group(folder)
    return None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
