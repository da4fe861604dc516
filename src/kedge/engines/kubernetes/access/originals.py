"""Which file of the run's own folder each file of the copy comes from, by their inodes. It is kept beside the run, so
that a command that is killed loses nothing: files that are renamed stay what they are, and how much of a file is there
is its size.

RUN/cluster/copied.jsonl, and copied-outputs.jsonl for the outputs
  {"copy": ID}      which copy of the run's own folder the next lines are about
  [INODE, ORIGINAL]  of a file, written before it is seen under its name
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from kedge import untrusted
from kedge.own_files import open_own, replace_file, write_all
from kedge.runs.cluster_files import ClusterFiles

_LARGEST = 256 << 20
_SPARE = 1000  # lines about files that are gone, before the file is written again


class Originals:
    """What is known of the originals. Only one process at a time has this open."""

    def __init__(self, files: ClusterFiles, part: str) -> None:
        self.copy = ""
        self._by_inode: dict[int, int] = {}
        self._lines = 0
        name = f"{part}.jsonl"
        self._path = files.folder / name
        with suppress(OSError):
            for line in untrusted.read(files.folder, name, _LARGEST).splitlines():
                with suppress(ValueError, TypeError):
                    self._take(untrusted.parse(line))
        self._fd = open_own(self._path, os.O_WRONLY | os.O_APPEND)
        write_all(self._fd, b"\n")  # after a line that was torn

    def close(self) -> None:
        os.close(self._fd)

    def of(self, inode: int) -> int:
        """The inode of the original; 0 if it is not known."""
        return self._by_inode.get(inode, 0)

    def add(self, inode: int, original: int) -> None:
        """Keep which original a new file of the copy has."""
        self._by_inode[inode] = original
        self._append([inode, original])

    def begin(self, copy: str) -> None:
        """From now on this copy is asked. What is known of another one is void."""
        if copy != self.copy or not copy:
            self._by_inode = {}
        self.copy = copy
        self._append({"copy": copy})

    def keep_only(self, inodes: set[int]) -> None:
        """Forget files that are not there any more."""
        self._by_inode = {inode: original for inode, original in self._by_inode.items() if inode in inodes}
        if self._lines > len(self._by_inode) + _SPARE:
            lines = [json.dumps({"copy": self.copy}), *(json.dumps(pair) for pair in self._by_inode.items())]
            replace_file(self._path, "".join(f"{line}\n" for line in lines).encode(), synced=False)
            os.close(self._fd)
            self._fd = open_own(self._path, os.O_WRONLY | os.O_APPEND)
            self._lines = len(lines)

    def _take(self, value: Any) -> None:
        self._lines += 1
        if isinstance(value, dict):
            copy = str(value.get("copy", ""))
            self._by_inode = self._by_inode if copy and copy == self.copy else {}
            self.copy = copy
        else:
            inode, original = value
            self._by_inode[int(inode)] = int(original)

    def _append(self, value: Any) -> None:
        self._lines += 1
        write_all(self._fd, f"{json.dumps(value)}\n".encode())
