"""The two sides of a copy: files of this task, and files that another one serves by SFTP."""

from __future__ import annotations

import os
import stat
from typing import Any, NamedTuple, Protocol

import asyncssh


class Attributes(NamedTuple):
    """What a copy keeps of a file. Times in seconds since 1970."""

    mode: int
    accessed: float
    modified: float

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


class FileSide(Protocol):
    """What a copy needs of one side. OSError or asyncssh.SFTPError where something cannot be done."""

    async def attributes(self, path: str) -> Attributes | None:
        """None if there is no such file."""

    async def names(self, path: str) -> list[str]:
        """The names in a folder."""

    async def matches(self, pattern: str) -> list[str]:
        """The paths that a source stands for: one, or those that match its wildcards."""

    async def make_folder(self, path: str) -> None:
        """Make a folder that only its owner can enter."""

    async def change(self, path: str, mode: int, times: tuple[float, float] | None) -> None:
        """Set a file's mode, and its times of access and modification."""


class OwnFiles:
    """Files of this task."""

    async def attributes(self, path: str) -> Attributes | None:
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        return Attributes(found.st_mode, found.st_atime, found.st_mtime)

    async def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    async def matches(self, pattern: str) -> list[str]:
        return [pattern]  # the shell has done it

    async def make_folder(self, path: str) -> None:
        os.mkdir(path, 0o700)

    async def change(self, path: str, mode: int, times: tuple[float, float] | None) -> None:
        os.chmod(path, mode)
        if times:
            os.utime(path, times)


class ServedFiles:
    """Files behind an SFTP client of asyncssh."""

    def __init__(self, sftp: Any) -> None:
        self.sftp = sftp

    async def attributes(self, path: str) -> Attributes | None:
        try:
            found = await self.sftp.stat(path)
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None
        return Attributes(found.permissions or 0, found.atime or 0, found.mtime or 0)

    async def names(self, path: str) -> list[str]:
        names = [str(name) for name in await self.sftp.listdir(path)]
        return sorted(name for name in names if name not in (".", "..") and "/" not in name)  # nothing outside `path`

    async def matches(self, pattern: str) -> list[str]:
        if not set("*?[") & set(pattern) or await self.attributes(pattern):
            return [pattern]
        return sorted(await self.sftp.glob(pattern))

    async def make_folder(self, path: str) -> None:
        await self.sftp.mkdir(path, asyncssh.SFTPAttrs(permissions=0o700))

    async def change(self, path: str, mode: int, times: tuple[float, float] | None) -> None:
        about_times = {"atime": int(times[0]), "mtime": int(times[1])} if times else {}
        await self.sftp.setstat(path, asyncssh.SFTPAttrs(permissions=mode, **about_times))
