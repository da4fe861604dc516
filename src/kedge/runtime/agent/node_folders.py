"""The agent's own folders on its node: one for files and FIFOs, one in memory for secrets. They are locked as long as
the agent or its keeper lives, so that what others of this user have left behind can be removed."""

from __future__ import annotations

import fcntl
import os
import stat

from kedge.light.contextlib import suppress
from kedge.light.types import NamedTuple
from kedge.own_files import clear

MEMORY = "/dev/shm"  # noqa: S108  (folders made in it are 0700, and must not exist before)
_DISK = "/tmp"  # noqa: S108  (the same)
_LONGEST_NAME = 200  # bytes
_NAMES = 100  # to try, since other users may have taken the first ones


class NodeFolders(NamedTuple):
    """`files` is on node-local disk, `secrets` in memory where there is some. Both are 0700. `locks` are descriptors
    that hold them."""

    files: str
    secrets: str
    locks: list[int]

    def remove(self) -> None:
        """Remove the folders, as far as possible."""
        for folder in (self.secrets, self.files):
            with suppress(OSError):
                clear(folder)


def make(name: str) -> NodeFolders:
    """Make the folders of the agent `name`, which no other agent on this node has, and remove what agents of this user
    have left behind that were killed. OSError."""
    disk = _writable(os.environ.get("TMPDIR", ""), _DISK)
    memory = _writable(MEMORY, disk)
    sweep_all()
    files, lock = _make(disk, name)
    if memory == disk:
        secrets = f"{files}/secrets"
        os.mkdir(secrets, 0o700)
        return NodeFolders(files, secrets, [lock])
    secrets, second = _make(memory, name)
    return NodeFolders(files, secrets, [lock, second])


def sweep_all() -> None:
    """Remove what agents of this user have left behind on this node that were killed."""
    disk = _writable(os.environ.get("TMPDIR", ""), _DISK)
    for parent in {disk, _writable(MEMORY, disk)}:
        sweep(parent)


def sweep(parent: str) -> None:
    """Remove the folders of this user's agents that no longer live."""
    with suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(_prefix()):
                with suppress(OSError):
                    _remove_if_left(f"{parent}/{name}")


def folder_name(task: str) -> str:
    """The name of the folder of a task's agent."""
    name = _prefix() + "".join(c if c.isascii() and (c.isalnum() or c in "-_.~") else "_" for c in task)
    if len(name) > _LONGEST_NAME:
        from kedge.light.hashlib import blake2b  # few tasks need it

        name = f"{name[: _LONGEST_NAME - 20]}-{blake2b(task.encode(), digest_size=8).hexdigest()}"
    return name


def _prefix() -> str:
    """With the node's name: the parent may be on a file system that nodes share, without locks between them."""
    return f"kedge-agent-{os.geteuid()}-{os.uname().nodename}-"


def _writable(folder: str, otherwise: str) -> str:
    usable = folder.startswith("/") and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
    return folder if usable else otherwise


def _make(parent: str, task: str) -> tuple[str, int]:
    base = f"{parent}/{folder_name(task)}"
    for number in range(_NAMES):
        path = f"{base}.{number}" if number else base
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:  # another user's, or one in use
            continue
        if (lock := _locked(path)) is not None:
            return path, lock
    raise FileExistsError(17, f"all of {_NAMES} names are taken; remove the folders that no job uses", base)


def _locked(path: str) -> int | None:
    """The descriptor that holds a new folder; None if another agent has taken it for a folder that was left behind."""
    fd = -1
    with suppress(FileNotFoundError, BlockingIOError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks, on which nobody sweeps
            return fd
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            return fd
    if fd >= 0:
        os.close(fd)
    return None


def _remove_if_left(path: str) -> None:
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.lstat(path)):  # it may have been removed, and made again by another agent
            clear(path)
    finally:
        os.close(fd)
