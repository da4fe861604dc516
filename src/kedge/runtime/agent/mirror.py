"""Sends what a supervisor and its task write to the controller, where no folder is shared: logs and their indexes as
they grow, also through rotation; events; the report; and at the end the outputs.

Files are known by their inodes, which are held open so that no other file gets the same number. What is stored already
is asked for at the beginning: an agent that was started again continues where the one before has stopped.
"""

from __future__ import annotations

import os
import time

from kedge.light.types import Any, Callable, Iterator
from kedge.link import mirroring
from kedge.link.frames import LinkFrame
from kedge.runtime.agent.mirror_outputs import OUTPUT_LIMIT, Outputs
from kedge.runtime.agent.mirror_scan import MirroredFile, opened, present

LOOK_SEC = 1.0  # between two looks at the folder
Send = Callable[[dict[str, Any], bytes], None]


class TaskMirror:
    """Mirrors the `folder` of a task attempt. `send(header, body)` sends a FILE message, `room()` tells how many bytes
    should be sent now. Call `poll` every LOOK_SEC, and whenever there is room again."""

    def __init__(
        self,
        folder: str,
        task_attempt: int,
        send: Send,
        room: Callable[[], int],
        *,
        output_limit: int = OUTPUT_LIMIT,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = False  # everything was sent, after `finish`
        self._folder, self._task_attempt, self._send, self._room = folder, task_attempt, send, room
        self._id, self._number = os.urandom(8).hex(), 0
        self._files: dict[str, MirroredFile] = {}  # by path
        self._stored: dict[str, dict[str, Any]] | None = None  # what the controller has; None before it says so
        self._now, self._look_at = now, 0.0
        self._finishing = False
        self._outputs: Iterator[None] | None = None
        self._output_limit = output_limit
        self._do(mirroring.ASK)

    def offsets(self, frame: LinkFrame) -> None:
        """Take an OFFSETS command."""
        files = frame.header.get("files")
        if self._stored is None and frame.header.get("task_attempt") == self._task_attempt and isinstance(files, dict):
            self._stored = files

    def poll(self) -> None:
        """Look at the folder, and send what is new, as much as there is room for."""
        if self._stored is None or self.done:
            return
        if self._outputs is None:
            self._look_again()
            if self._send_new() and self._finishing:
                self._outputs = self._send_outputs()
        if self._outputs:
            while self._room() > 0 and not self.done:
                next(self._outputs, None)

    def finish(self) -> None:
        """The supervisor has ended: nothing more is written. Go on with `poll` until `done`."""
        self._finishing, self._look_at = True, 0.0

    def close(self) -> None:
        """Release everything."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._outputs = None

    def _do(self, what: str, body: bytes = b"", **more: Any) -> None:
        self._number += 1
        head = {"task_attempt": self._task_attempt, "mirror": self._id, "op": self._number, "do": what}
        self._send({**head, **more}, body)

    def _look_again(self) -> None:
        """Look at the folder if that was long ago."""
        now = self._now()
        if now < self._look_at:
            return
        if self._stored:
            self._recognise(self._stored)
            self._stored = {}
        self._look_at = now + LOOK_SEC
        self._look()

    def _recognise(self, stored: dict[str, dict[str, Any]]) -> None:
        """Find the files whose beginnings are stored, perhaps under other names."""
        found = {path: file for path in present(self._folder) if (file := opened(self._folder, path))}
        renamed = []
        for path, one in stored.items():
            same = (path, *(each for each in found if os.path.dirname(each) == os.path.dirname(path)))
            now = next((each for each in same if each in found and found[each].begins_with(one)), None)
            if now is None:
                continue
            file = found.pop(now)
            file.offset, file.sent = one["size"], True
            file.path = now
            self._files[now] = file
            if now != path:
                renamed.append((path, now))
        for file in found.values():
            file.close()  # it is found again as a new one
        for path, now in _in_order(renamed):
            self._do(mirroring.RENAME, path=path, to=now)
        for path in stored.keys() - {path for path, _ in renamed} - self._files.keys():
            if path not in present(self._folder):
                self._do(mirroring.REMOVE, path=path)

    def _look(self) -> None:
        """Find files that are new, renamed or gone."""
        now = present(self._folder)
        by_inode = {inode: path for path, inode in now.items()}
        before, self._files = self._files, {}
        renamed = []
        for path, file in before.items():
            to = path if now.get(path) == file.inode else by_inode.get(file.inode)
            if to is None or to in self._files:  # two names of one file are of a task's making
                file.close()
                if path not in now and file.sent:
                    self._do(mirroring.REMOVE, path=path)
                continue
            file.path = to
            self._files[to] = file
            if to != path and file.sent:
                renamed.append((path, to))
        for path, to in _in_order(renamed):
            self._do(mirroring.RENAME, path=path, to=to)
        for path in now:
            if path not in self._files and (new := opened(self._folder, path)):
                self._files[path] = new

    def _send_new(self) -> bool:
        """Send what files have more than was sent, each a piece in turn. True if that is everything."""
        growing = sorted(self._files.values(), key=lambda file: mirroring.order(file.path))
        while growing:
            for file in list(growing):
                if self._room() <= 0:
                    return False
                piece = file.next_piece()
                if piece is None:
                    growing.remove(file)
                else:
                    self._do(mirroring.WRITE, piece.data, path=file.path, offset=piece.offset, new=piece.new)
        return True

    def _send_outputs(self) -> Iterator[None]:
        outputs = Outputs(self._folder, self._output_limit)
        for path, piece in outputs.pieces():
            self._do(mirroring.WRITE, piece.data, path=path, offset=piece.offset, new=piece.new)
            yield
        self._do(mirroring.END, skipped_files=outputs.skipped_files, skipped_bytes=outputs.skipped_bytes)
        self.done = True


def _in_order(renamed: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Renames in an order in which none overwrites a file that is still to be renamed."""
    left, ordered = list(renamed), []
    while left:
        waiting = {path for path, _ in left}
        free = [one for one in left if one[1] not in waiting - {one[0]}] or left[:1]
        ordered += free
        left = [one for one in left if one not in free]
    return ordered
