"""The program `scp` of tasks whose image has no OpenSSH. It copies by SFTP, as OpenSSH's does since version 9.

scp [options] source ... target
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import asyncssh

from kedge.runtime.ssh import configuration, connection, copy_line
from kedge.runtime.ssh.command_line import Destination, UsageError
from kedge.runtime.ssh.copy_line import CopyCommand, CopyPlace
from kedge.runtime.ssh.file_sides import Attributes, FileSide, OwnFiles, ServedFiles
from kedge.runtime.ssh.messages import OWN_FAILURE, SshFailed

_FAILED = 1


class CopyFailed(Exception):
    """One file or folder cannot be copied."""


class ScpCopy(NamedTuple):
    """Copies from one side to the other; `transfer(source, target)` copies the content of one file."""

    source: FileSide
    target: FileSide
    transfer: Callable[[str, str], Any]
    command: CopyCommand
    umask: int

    async def copy(self, source: str, target: str) -> int:
        """Copy a file, or a folder with -r. Return 1 if something is left out, which is printed."""
        try:
            found = await self.source.attributes(source)
            if found is None:
                raise CopyFailed(f"{source}: No such file or directory")
            if found.is_folder and self.command.recurse:
                return await self._folder(source, target, found)
            if not found.is_file:
                raise CopyFailed(f"{source}: not a regular file")
            await self._file(source, target, found)
        except (CopyFailed, OSError, asyncssh.SFTPError) as error:
            print(f"scp: {_text(error, target)}", file=sys.stderr)
            return _FAILED
        return 0

    async def _folder(self, source: str, target: str, found: Attributes) -> int:
        there = await self.target.attributes(target)
        if there is None:
            await self.target.make_folder(target)
        elif not there.is_folder:
            raise CopyFailed(f"{target}: Not a directory")
        code = 0
        for name in await self.source.names(source):
            code |= await self.copy(posixpath.join(source, name), posixpath.join(target, name))
        if there is None or self.command.preserve:
            await self._keep(target, found)
        return code

    async def _file(self, source: str, target: str, found: Attributes) -> None:
        there = await self.target.attributes(target)
        await self.transfer(source, target)
        if there is None or self.command.preserve:
            await self._keep(target, found)

    async def _keep(self, target: str, found: Attributes) -> None:
        """Give a new file the mode of its source, and with -p also the times."""
        mode = stat.S_IMODE(found.mode)
        if self.command.preserve:
            await self.target.change(target, mode, (found.accessed, found.modified))
        else:
            await self.target.change(target, mode & 0o777 & ~self.umask, None)


def main(arguments: Sequence[str]) -> int:
    """Run `scp` and return its exit code."""
    try:
        return asyncio.run(_run(copy_line.parse(arguments)))
    except (UsageError, SshFailed) as error:
        print(error, file=sys.stderr)
        return _FAILED if isinstance(error, UsageError) else OWN_FAILURE
    except (OSError, asyncssh.Error) as error:
        print(f"scp: {error}", file=sys.stderr)
        return OWN_FAILURE
    except KeyboardInterrupt:
        return 130


async def _run(command: CopyCommand) -> int:
    if command.target.destination:
        if any(place.destination for place in command.sources):
            raise UsageError("scp: copying between two other hosts is not supported by kedge's scp: copy here first")
        sftp = await _sftp(command, command.target.destination)
        sides = OwnFiles(), ServedFiles(sftp), sftp.put
        return await _copy_all(ScpCopy(*sides, command, _umask()), command.sources)
    code = 0
    for place in command.sources:
        if place.destination:
            sftp = await _sftp(command, place.destination)
            copier = ScpCopy(ServedFiles(sftp), OwnFiles(), sftp.get, command, _umask())
        else:
            copier = ScpCopy(OwnFiles(), OwnFiles(), _copy_here, command, _umask())
        code |= await _copy_all(copier, [place])
    return code


async def _copy_all(copier: ScpCopy, places: Sequence[CopyPlace]) -> int:
    target = copier.command.target.path
    there = await copier.target.attributes(target)
    into = there is not None and there.is_folder
    sources = [source for place in places for source in await copier.source.matches(place.path)]
    if not into and (len(sources) > 1 or len(copier.command.sources) > 1 or target.endswith("/")):
        raise UsageError(f"scp: {target}: {'Not a directory' if there else 'No such file or directory'}")
    code = 0
    for source in sources:
        name = posixpath.basename(posixpath.normpath(source))
        code |= await copier.copy(source, posixpath.join(target, name) if into else target)
    return code


async def _sftp(command: CopyCommand, destination: Destination) -> Any:
    files = [command.config] if command.config else configuration.default_files()
    target = configuration.read(destination, command.options, files)
    connected = await connection.connect(target, files)
    try:
        return await connected.start_sftp_client()
    except asyncssh.Error as error:
        raise SshFailed(f"scp: {target.host} does not serve files (SFTP): {error}") from error


async def _copy_here(source: str, target: str) -> None:
    with open(source, "rb") as read, open(target, "wb") as write:
        while data := read.read(1 << 20):
            write.write(data)


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def _text(error: Exception, target: str) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return f"{target}: {error.reason}" if isinstance(error, asyncssh.SFTPError) else str(error)
