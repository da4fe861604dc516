"""Unpacks the job's code in the pod of a task. It is the job's own, and nothing but this runs in its container yet."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zlib

from kedge.light.types import NamedTuple
from kedge.link import pod_folders

_PIECE = 1 << 20
Mode = int


class CodeModes(NamedTuple):
    """What files and folders of the code are besides what they were: allowed for everybody, and forbidden."""

    allowed: Mode
    forbidden: Mode


COPIED = CodeModes(0o666, 0)  # the supervisor makes the task's own copy, whoever the user is
SHARED = CodeModes(0o444, 0o222)  # the task starts in it


class CodeDamaged(Exception):
    """The pieces do not make an archive that can be unpacked."""


def install(root: str, pieces: str, code: str, *, shared: bool) -> None:
    """Unpack the folder `code` to where the task starts, or to where the supervisor copies it from. `root` stands
    before the paths of a pod. CodeDamaged, OSError."""
    target = f"{root}{pod_folders.SCRIPTS}/{code}" if shared else root + pod_folders.SNAPSHOT
    if os.path.lexists(target):
        shutil.rmtree(target)  # somebody before was ended in the middle
    os.makedirs(os.path.dirname(target), exist_ok=True)
    unpack(pieces, code, target, SHARED if shared else COPIED)


def unpack(pieces: str, code: str, target: str, modes: CodeModes) -> int:
    """Unpack the folder `code` of the archive, whose pieces lie in a folder, to the new folder `target`; the number of
    its files. Links are made last, so that nothing is written through one. CodeDamaged, OSError."""
    os.mkdir(target)
    try:
        with _Pieces(pieces) as whole, gzip.GzipFile(fileobj=whole) as data:
            with tarfile.open(fileobj=data, mode="r|") as archive:
                count = _unpack(archive, code, target, modes)
            while data.read(_PIECE):  # to the end, where the checksum is
                continue
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CodeDamaged(f"the code in {pieces} cannot be unpacked: {error}") from error
    if not count:
        raise CodeDamaged(f"the code in {pieces} has no folder {code}")
    return count


def _unpack(archive: tarfile.TarFile, code: str, target: str, modes: CodeModes) -> int:
    folders: dict[str, tuple[int, float | None]] = {target: (0o755, None)}
    links, count = {}, 0
    for member in archive:
        path = _path(member.name, code, target)
        if path is None:
            continue
        if member.isdir():
            os.makedirs(path, exist_ok=True)
            folders[path] = (member.mode, member.mtime)
        elif member.issym():
            links[path] = member.linkname
        elif member.isreg():
            _write(archive, member, path, modes)
        else:
            raise CodeDamaged(f"the code has {member.name}, which is no file, folder or symbolic link")
        count += 1
    for path, link in links.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(link, path)
    for path, (mode, time) in reversed(folders.items()):
        os.chmod(path, _mode(mode | 0o700, modes))
        if time is not None:
            os.utime(path, (time, time))
    return count


def _path(name: str, code: str, target: str) -> str | None:
    """Where a member comes; None if it is not in the folder `code`."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith("/"):
        raise CodeDamaged(f"the code has {name}, which leads out of it")
    inside = code.split("/")
    return "/".join([target, *parts[len(inside) :]]) if parts[: len(inside)] == inside else None


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, modes: CodeModes) -> None:
    source = archive.extractfile(member)
    assert source, "it is a regular file"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        while data := source.read(_PIECE):
            file.write(data)
        os.fchmod(file.fileno(), _mode(member.mode, modes))
    os.utime(path, (member.mtime, member.mtime))


def _mode(mode: int, modes: CodeModes) -> int:
    executable = 0o111 if mode & 0o100 else 0
    return (mode & 0o777 | modes.allowed | executable) & ~modes.forbidden


class _Pieces(io.RawIOBase):
    """The files in a folder as one, in the order of their numbers."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        names = [name for name in os.listdir(folder) if not name.startswith("..")]
        self._paths = [f"{folder}/{name}" for name in sorted(names, key=lambda name: (len(name), name))]
        self._file: io.BufferedReader | None = None

    def read(self, size: int = -1) -> bytes:
        """Some of the next bytes; none at the end."""
        while True:
            if self._file and (data := self._file.read(size)):
                return data
            self._close_file()
            if not self._paths:
                return b""
            self._file = open(self._paths.pop(0), "rb")  # noqa: SIM115  (closed above)

    def close(self) -> None:
        self._close_file()
        super().close()

    def _close_file(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
