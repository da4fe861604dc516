"""The outputs of a task, which are copied once it has ended."""

from __future__ import annotations

import os
import stat

from kedge import untrusted
from kedge.contract import OUTPUT_DIR
from kedge.light.types import Iterator
from kedge.link import mirroring
from kedge.runtime.agent.mirror_scan import Piece

OUTPUT_LIMIT = 1 << 30  # bytes of all outputs
_MOST_FILES = 10_000
_DEEPEST = 30


class Outputs:
    """The regular files below the folder of outputs, in the order of their names, as long as all of a file fits into
    the limit. Links are not followed. `skipped_files` and `skipped_bytes` count what else is left out."""

    def __init__(self, folder: str, limit: int) -> None:
        self.skipped_files = self.skipped_bytes = 0
        self._folder, self._left, self._files_left = folder, limit, _MOST_FILES

    def pieces(self) -> Iterator[tuple[str, Piece]]:
        """The path of each file below the folder of the task attempt, with its bytes."""
        for path in self._walk(OUTPUT_DIR, 0) if self._left else ():
            try:
                fd = untrusted.open_regular(self._folder, path)
            except OSError:
                self.skipped_files += 1
                continue
            try:
                yield from self._file(path, fd)
            finally:
                os.close(fd)

    def _file(self, path: str, fd: int) -> Iterator[tuple[str, Piece]]:
        size = os.fstat(fd).st_size
        if size > self._left or not self._files_left or not mirroring.is_output(path):
            self.skipped_files, self.skipped_bytes = self.skipped_files + 1, self.skipped_bytes + size
            return
        self._left, self._files_left = self._left - size, self._files_left - 1
        offset = 0
        while offset < size or not offset:
            try:
                data = os.pread(fd, min(mirroring.PIECE, size - offset), offset)
            except OSError:  # a damaged disk
                self.skipped_files, self.skipped_bytes = self.skipped_files + 1, self.skipped_bytes + size - offset
                return
            yield path, Piece(offset, data, not offset)
            if not data:
                break
            offset += len(data)

    def _walk(self, folder: str, depth: int) -> Iterator[str]:
        try:
            at = untrusted.open_folder(self._folder, folder)
        except FileNotFoundError:
            return
        except OSError:
            self.skipped_files += 1
            return
        try:
            with os.scandir(at) as entries:
                kinds = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries)
        except OSError:
            self.skipped_files += 1
            return
        finally:
            os.close(at)
        for name, mode in kinds:
            if stat.S_ISDIR(mode) and depth < _DEEPEST:
                yield from self._walk(f"{folder}/{name}", depth + 1)
            elif stat.S_ISDIR(mode):
                self.skipped_files += 1
            elif stat.S_ISREG(mode):
                yield f"{folder}/{name}"
