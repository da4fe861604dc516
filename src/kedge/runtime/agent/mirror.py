"""Sends what a supervisor and its task write to the controller, where no folder is shared: logs and their indexes as
they grow, also through rotation; events; the report; and at the end the outputs.

Files are known by their inodes, which are held open so that no other file gets the same number. What is stored already
is asked for at the beginning: an agent that was started again continues where the one before has stopped.
"""

from __future__ import annotations

import os
import time

from kedge.contract import STREAMS
from kedge.light.types import Any, Callable, Iterator
from kedge.link import mirroring
from kedge.link.frames import LinkFrame
from kedge.runtime.agent.mirror_outputs import OUTPUT_LIMIT, Outputs
from kedge.runtime.agent.mirror_scan import MirroredFile, opened, present

LOOK_SEC = 1.0  # between two looks at the folder
BUSY_LOOK_SEC = 0.1  # if the last one has found something
Send = Callable[[dict[str, Any], bytes], None]


class TaskMirror:
    """Mirrors the `folder` of a task attempt. `send(header, body)` sends a FILE message, `room()` tells how many bytes
    should be sent now. The folder of outputs is in `output_parent`, or in that folder; with a limit of 0 they are
    stored elsewhere. Call `poll` at `due`, and whenever there is room again.

    What is done to the files reaches the controller in the order in which a supervisor does it: all bytes of a log
    before it gets another name, the index before the log, a full file before the next one. So those who read there
    see the same as on one machine, only later.
    """

    def __init__(
        self,
        folder: str,
        task_attempt: int,
        send: Send,
        room: Callable[[], int],
        *,
        output_limit: int = OUTPUT_LIMIT,
        output_parent: str | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = False  # everything was sent, after `finish`
        self._look_at = 0.0
        self._folder, self._task_attempt, self._send, self._room = folder, task_attempt, send, room
        self._id, self._number = os.urandom(8).hex(), 0
        self._files: dict[str, MirroredFile] = {}  # by path
        self._stored: dict[str, dict[str, Any]] | None = None  # what the controller has, once it has reported that
        self._now = now
        self._finishing = False
        self._output_limit, self._output_parent = output_limit, output_parent or folder
        self._steps: Iterator[bool] = self._all_steps()
        self._sent_some = False
        self._do(mirroring.ASK)

    @property
    def due(self) -> float:
        """When `poll` must be called, by the clock `now`; infinite while the controller has not answered."""
        return float("inf") if self._stored is None else self._look_at

    def offsets(self, frame: LinkFrame) -> None:
        """Take an OFFSETS command."""
        files = frame.header.get("files")
        if self._stored is None and frame.header.get("task_attempt") == self._task_attempt and isinstance(files, dict):
            self._stored = files
            self.done = self._finishing and frame.header.get("complete") is True

    def poll(self) -> None:
        """Look at the folder if it is time, and send what is new, as much as there is room for."""
        if self._stored is None or self.done or self._now() < self._look_at:
            return
        while self._room() > 0 and not self.done:
            if not next(self._steps, False) and not self._finishing:
                self._look_at = self._now() + (BUSY_LOOK_SEC if self._sent_some else LOOK_SEC)
                self._sent_some = False
                return

    def finish(self) -> None:
        """The supervisor has ended: nothing more is written. Go on with `poll` until `done`."""
        self._finishing, self._look_at = True, 0.0

    def close(self) -> None:
        """Release everything."""
        self._steps = iter(())
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _do(self, what: str, body: bytes = b"", **more: Any) -> None:
        self._number += 1
        head = {"task_attempt": self._task_attempt, "mirror": self._id, "op": self._number, "do": what}
        self._send({**head, **more}, body)

    def _all_steps(self) -> Iterator[bool]:
        """Each step sends a piece and yields True; False where it is enough for now."""
        self._recognise(self._stored or {})
        last = False
        while not last:
            last = self._finishing  # if so, this look shows the files as they stay
            renamed = self._look()
            for _, _, file in sorted(renamed, key=lambda one: mirroring.order(one[0])):
                yield from self._rest_of(file)  # it was written under the old name
            for path, to, file in renamed:
                self._do(mirroring.RENAME, path=path, to=to)
                file.path = to
            yield from self._new_bytes()
            yield last
        yield from self._outputs()
        self.done = True

    def _recognise(self, stored: dict[str, dict[str, Any]]) -> None:
        """Find the files whose beginnings are stored, perhaps under other names."""
        now = present(self._folder)
        found = {path: file for path in now if (file := opened(self._folder, path))}
        for path, one in stored.items():
            same = (path, *(each for each in found if os.path.dirname(each) == os.path.dirname(path)))
            if name := next((each for each in same if each in found and found[each].begins_with(one)), None):
                file = found.pop(name)
                file.path, file.offset, file.sent = path, one["size"], True  # the next look finds that it is renamed
                self._files[path] = file
            elif path not in now:
                self._do(mirroring.REMOVE, path=path)
        for file in found.values():
            file.close()  # it is found again as a new one

    def _look(self) -> list[tuple[str, str, MirroredFile]]:
        """Find files that are new, renamed or gone. Returns those that are renamed, with the old and the new name."""
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
            self._files[to] = file
            if to != path and file.sent:
                renamed.append((path, to))
            else:
                file.path = to
        for path in now:
            if path not in self._files and (new := opened(self._folder, path)):
                self._files[path] = new
        for file in self._files.values():
            file.see_size()
        self._files = {path: self._files[path] for path in now if path in self._files}  # the older files first
        return [(path, to, self._files[to]) for path, to in mirroring.without_overwriting(renamed)]

    def _new_bytes(self) -> Iterator[bool]:
        """Send what files have more than was sent. Those of different folders get their turns, but no log gets bytes
        before its index has them: logs are sent as far as they had come when the look began."""
        for are_logs in (False, True):
            queues: dict[str, list[MirroredFile]] = {}
            for path in sorted(self._files, key=mirroring.order):
                if path.startswith(STREAMS) == are_logs:
                    queues.setdefault(os.path.dirname(path), []).append(self._files[path])
            while queues:
                for folder, files in list(queues.items()):
                    if self._send_piece(files[0]):
                        yield True
                        continue
                    del files[0]
                    if not files:
                        del queues[folder]

    def _rest_of(self, file: MirroredFile) -> Iterator[bool]:
        while self._send_piece(file):
            yield True

    def _send_piece(self, file: MirroredFile) -> bool:
        piece = file.next_piece()
        if piece:
            self._sent_some = True
            self._do(mirroring.WRITE, piece.data, path=file.path, offset=piece.offset, new=piece.new)
        return piece is not None

    def _outputs(self) -> Iterator[bool]:
        outputs = Outputs(self._output_parent, self._output_limit)
        for path, piece in outputs.pieces():
            self._do(mirroring.WRITE, piece.data, path=path, offset=piece.offset, new=piece.new)
            yield True
        self._do(mirroring.END, skipped_files=outputs.skipped_files, skipped_bytes=outputs.skipped_bytes)
