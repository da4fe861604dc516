"""Lists and reads a folder in a container through the runtime's busybox there: that of a running task, or a volume in a
pod that reads it. What comes from there is not trusted."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from kedge.engines.kubernetes.api import ExecStream, KubernetesApi
from kedge.engines.kubernetes.objects import pod_paths
from kedge.engines.kubernetes.transport.exec_stream import STDOUT
from kedge.errors import CannotRun
from kedge.runs.output_lists import OutputFile
from kedge.runs.outputs import DEEPEST
from kedge.terminal_text import one_line

BUSYBOX = f"{pod_paths.IMAGE_BUNDLE}/shell/busybox"  # in containers of the runtime's image
_LIST = 'cd "$1" && "$0" find . "(" -type f -o -type l ")" -exec "$0" stat -c "%f %s %n" "{}" "+"'
_PACK = 'cd "$1" && "$0" tar -c -f - "./$2"'
_LINE = re.compile(r"([0-9a-f]{4}) (\d{1,19}) \./(.+)")
_LINK = 0o120000
_SILENCE_SEC = 60.0
_LONGEST = 2000  # characters of what a program says about an error
_LONGEST_PATH = 4096


class FileSource(NamedTuple):
    """The folder `top` in a container that has `busybox`. `whose` names it in errors."""

    api: KubernetesApi
    pod: str
    container: str
    busybox: str
    top: str
    whose: str

    def files(self) -> list[OutputFile]:
        """The regular files and links below the folder, sorted. CannotRun: it cannot be read, or not all of it."""
        with self._program(_LIST) as stream:
            said = ProgramOutput(stream, self.whose)
            lines = b"".join(said.all()).decode(errors="replace").split("\n")
            said.check()
        matches = filter(None, map(_LINE.fullmatch, lines))
        found = [OutputFile(each[3], int(each[2]), int(each[1], 16) & 0o170000 == _LINK) for each in matches]
        return sorted(found, key=lambda file: file.path.split("/"))

    def fetch(self, path: str, folder: str) -> None:
        """Copy the regular files at `path` (empty: all) into the new folder `folder`, with the paths that they have
        below `top`. CannotRun: it cannot be read, or not all of it; OSError: it cannot be written."""
        with self._program(_PACK, path) as stream:
            said = ProgramOutput(stream, self.whose)
            try:
                with tarfile.open(fileobj=said, mode="r|") as archive:  # type: ignore[call-overload]
                    _unpack(archive, folder)
            except tarfile.TarError as error:
                said.check()
                raise CannotRun(f"{self.whose} cannot be read: {error}") from None
            for _ in said.all():
                pass
            said.check()

    def _program(self, script: str, *words: str) -> ExecStream:
        argv = (self.busybox, "sh", "-c", script, self.busybox, self.top, *words)
        return self.api.exec(self.pod, self.container, argv, stdin=False)


class ProgramOutput:
    """What a program prints, as a file."""

    def __init__(self, stream: ExecStream, whose: str) -> None:
        self._stream, self._whose = stream, whose
        self._data, self._errors = b"", b""

    def read(self, size: int) -> bytes:
        """Some of it; empty at the end. CannotRun: nothing comes any more."""
        while not self._data:
            if (data := self._next()) is None:
                return b""
            self._data = data
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def all(self) -> Iterator[bytes]:
        """The rest of it."""
        while data := self.read(1 << 20):
            yield data

    def check(self) -> None:
        """CannotRun: the program has failed."""
        if self._stream.exit_code:
            why = one_line(self._errors.decode(errors="replace").strip().partition("\n")[0])
            raise CannotRun(f"{self._whose} cannot be read: {why or f'exit code {self._stream.exit_code}'}")

    def _next(self) -> bytes | None:
        end = time.monotonic() + _SILENCE_SEC
        while self._stream.exit_code is None:
            frame = self._stream.read(max(0.0, end - time.monotonic()))
            if frame and frame.channel == STDOUT:
                return frame.data
            if frame:
                self._errors = (self._errors + frame.data)[-_LONGEST:]
            elif self._stream.exit_code is None and time.monotonic() >= end:
                raise CannotRun(f"{self._whose} cannot be read: nothing has come for {_SILENCE_SEC:g} s")
        return None


def _unpack(archive: tarfile.TarFile, folder: str) -> None:
    """Write the regular files and folders of an archive. Links to other places are left out, so none is followed."""
    for member in archive:
        path = _path(member.name)
        if path is None:
            continue
        whole = f"{folder}/{path}"
        os.makedirs(whole if member.isdir() else os.path.dirname(whole), exist_ok=True)
        if member.isreg():
            _write(archive, member, whole)
        elif member.islnk() and (first := _path(member.linkname)):
            with suppress(FileNotFoundError):
                os.link(f"{folder}/{first}", whole)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    content = archive.extractfile(member)
    assert content, "it is a regular file"
    with open(path, "xb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
    os.utime(path, (member.mtime, member.mtime))


def _path(name: str) -> str | None:
    """The path of a member without dots; None if nothing is to be written for it. CannotRun: it leads elsewhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or len(parts) > DEEPEST or len(name) > _LONGEST_PATH:
        raise CannotRun(f"what is sent of a folder has the path {one_line(name[:200])}, which kedge does not copy")
    return "/".join(parts) or None
