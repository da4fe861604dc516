"""Finds out what is new in a run folder, and sends it."""

from __future__ import annotations

import os
import time

from kedge import untrusted
from kedge.contract import EVENTS_FILE, OUTPUT_DIR
from kedge.engines.kubernetes.access import copy_rules, sent_files
from kedge.engines.kubernetes.access.copy_rules import CopyOrder, KnownFile
from kedge.engines.kubernetes.access.folder_scan import FolderScan, SeenFile
from kedge.engines.kubernetes.access.sent_files import SentFile
from kedge.light.contextlib import suppress
from kedge.light.types import Any, Callable, Mapping
from kedge.link import mirroring
from kedge.open_files import raise_limit_to

_LOOKS_AGAIN = 3  # for a file that has gone: it may be on its way to another name
_END = b'"job-completed"'
_MOST_OPEN, _SPARE = 1 << 16, 64  # open files
_AGAIN_SEC = 3.0  # until something is tried again that could not be read
_REPORT_SEC = 5.0  # how long the event of the end is held back until the report is there, too
Send = Callable[..., None]


class CopySender:
    """Sends what `order` asks for of the folder `top`, by `send(kind, body, **header)`, which blocks until there is
    room. `copy` is which copy of the run folder this is."""

    def __init__(self, top: str, copy: str, order: CopyOrder, known: Mapping[str, KnownFile], send: Send) -> None:
        self.has_ended = False  # the job has ended, and its end was sent
        self.has_outputs = True  # the job may have some; known when it has ended
        self._top, self._send = top, send
        self._scan = FolderScan(top, order.wants)
        self._folders: set[str] = set()
        self._most_held = raise_limit_to(_MOST_OPEN) - _SPARE
        self._present: dict[str, SeenFile] | None = None  # at the last look, if that had nothing to send
        self._again_at = 0.0
        self._held_until: float | None = None
        self._events: SeenFile | None = None  # as they were when they were searched for the end
        self._has_end = False
        wanted = {path: file for path, file in known.items() if order.wants(path)}
        is_same = bool(copy) and copy == order.copy
        self._files = sent_files.recognised(top, wanted, self._scan.look() if wanted else {}, is_same)

    def look(self) -> bool:
        """Send what is new. Returns whether there was anything."""
        present, now = self._scan.look(), time.monotonic()
        is_same = present == self._present and self._held_until is None
        if is_same and self._scan.folders == self._folders and now < self._again_at:
            return False
        sent = self._send_new(present)
        self._present = None if sent else present  # what has been tried in vain is tried again, less often
        self._again_at = now + _AGAIN_SEC
        return sent

    def _send_new(self, present: dict[str, SeenFile]) -> bool:
        sent = self._new_folders()
        present = self._with_renamed(present)
        sent |= self._renames(present)
        for path in [path for path in self._files if path not in present and not self._files[path].waits_for]:
            del self._files[path]
            self._send(copy_rules.REMOVE, path=path)
            sent = True
        for path in sorted((path for path in present if not self._has(path, present[path])), key=copy_rules.order):
            sent |= self._file(path, present[path])
        if not self.has_ended and self._is_end_sent(present):
            self.has_ended, self.has_outputs = True, _has_outputs(self._top)
        return sent

    def _new_folders(self) -> bool:
        new = sorted(self._scan.folders - self._folders)
        for path in new:
            self._send(copy_rules.FOLDER, path=path)
        self._folders = set(self._scan.folders)
        return bool(new)

    def _with_renamed(self, present: dict[str, SeenFile]) -> dict[str, SeenFile]:
        """The files with those that were renamed during the look: a log that is not where it was is in its folder
        under another name, or deleted."""
        for _ in range(_LOOKS_AGAIN):
            inodes = {(path.rpartition("/")[0], seen.inode) for path, seen in present.items()}
            folders = {
                folder
                for path, file in self._files.items()
                if ((folder := path.rpartition("/")[0]), file.inode) not in inodes
                and copy_rules.is_current(path)
                and not file.waits_for
            }
            if not folders:
                break
            for folder in folders:
                present = {path: seen for path, seen in present.items() if path.rpartition("/")[0] != folder}
                present |= self._scan.again(folder)
        return present

    def _renames(self, present: Mapping[str, SeenFile]) -> bool:
        """Send the rest of the files that have another name now, and then the new names. Only the file in which a log
        grows gets another one; that of another deleted file belongs to a new one, which has got its inode."""
        by_inode = {(path.rpartition("/")[0], seen.inode): path for path, seen in present.items()}
        renamed = []
        for path, file in self._files.items():
            to = by_inode.get((path.rpartition("/")[0], file.inode))
            is_there = path in present and present[path].inode == file.inode
            if to and not is_there and copy_rules.is_current(path) and not file.waits_for:
                renamed.append((path, to))
        renamed.sort(key=lambda one: copy_rules.order(one[0]))
        for path, to in renamed:
            self._send_growing(path, to, self._files[path], present[to])
        for path, to in mirroring.without_overwriting(renamed):
            self._send(copy_rules.RENAME, path=path, to=to)
            self._files[to] = self._files.pop(path)
        return bool(renamed)

    def _has(self, path: str, seen: SeenFile) -> bool:
        """Whether a file was sent as it is."""
        sent = self._files.get(path)
        return sent is not None and sent.seen == seen

    def _file(self, path: str, seen: SeenFile) -> bool:
        """Send what is new of a file. Returns whether there was anything."""
        sent = self._files.get(path)
        if sent and sent.waits_for:
            if (as_far := sent_files.has_come_as_far(self._top, path, seen, sent.waits_for)) is None:
                return False
            sent = SentFile(seen.inode, sent.waits_for.size) if as_far else None
        if path == EVENTS_FILE and self._holds_end(seen, sent):
            return False
        if not copy_rules.grows(path):
            return self._send_whole(path, seen)
        if sent is None or sent.inode != seen.inode or seen.size < sent.offset:
            sent = SentFile(seen.inode, 0)
            if not self._send_piece(path, path, sent, seen, new=True):
                return False
        self._files[path] = sent
        return self._send_growing(path, path, sent, seen)

    def _send_growing(self, path: str, name: str, sent: SentFile, seen: SeenFile) -> bool:
        """Send the rest of a file that is called `name` here, and `path` there."""
        before = sent.offset
        while sent.offset < seen.size and self._send_piece(path, name, sent, seen):
            pass
        if sent.offset >= seen.size:
            sent.seen = seen
        return sent.offset > before

    def _send_piece(self, path: str, name: str, sent: SentFile, seen: SeenFile, *, new: bool = False) -> bool:
        data = self._read(name, sent.inode, sent.offset, min(copy_rules.PIECE, seen.size - sent.offset), sent)
        if data is None or not (data or new):
            return False
        self._write(path, data, sent.offset, sent.inode, new=new, last=False, grows=True, time=0)
        sent.offset += len(data)
        return True

    def _send_whole(self, path: str, seen: SeenFile) -> bool:
        """Send a file that is replaced as a whole; as it is now, if it changes meanwhile."""
        offset, new = 0, True
        while new or offset < seen.size:
            data = self._read(path, seen.inode, offset, min(copy_rules.PIECE, seen.size - offset))
            if data is None:
                return not new  # it has been replaced: the next look finds that
            last = offset + len(data) >= seen.size or not data
            self._write(path, data, offset, seen.inode, new=new, last=last, grows=False, time=seen.time)
            offset, new = offset + len(data), False
            if last:
                break
        self._files[path] = SentFile(seen.inode, offset, seen)
        return True

    def _write(self, path: str, data: bytes, offset: int, inode: int, **more: Any) -> None:
        self._send(copy_rules.WRITE, data, path=path, offset=offset, inode=inode, **more)

    def _read(self, path: str, inode: int, offset: int, count: int, keep_open: SentFile | None = None) -> bytes | None:
        """Bytes of a file; None if it is not the file with this inode any more. The file that a log grows in is kept
        open: it may be deleted, and its inode used again, before the next look."""
        with suppress(OSError):
            fd = untrusted.open_regular(self._top, path)
            try:
                if os.fstat(fd).st_ino == inode:
                    if keep_open and keep_open.held < 0 and fd < self._most_held and copy_rules.is_current(path):
                        keep_open.held = os.dup(fd)
                    return os.pread(fd, count, offset)
            finally:
                os.close(fd)
        return None

    def _holds_end(self, seen: SeenFile, sent: SentFile | None) -> bool:
        """Whether the events wait until the report is there: who sees that the job has ended looks for it."""
        offset = sent.offset if sent and sent.inode == seen.inode else 0
        if not self._has_end_after(offset, seen) or copy_rules.JOB_REPORTS[0] in self._files:
            return False
        self._held_until = self._held_until or time.monotonic() + _REPORT_SEC
        return time.monotonic() < self._held_until

    def _is_end_sent(self, present: Mapping[str, SeenFile]) -> bool:
        seen, sent = present.get(EVENTS_FILE), self._files.get(EVENTS_FILE)
        if not (seen and sent and sent.seen == seen and copy_rules.JOB_REPORTS[0] in self._files):
            return False
        if seen != self._events:
            self._events = seen
            self._has_end = self._has_end_after(0, seen)
        return self._has_end

    def _has_end_after(self, offset: int, seen: SeenFile) -> bool:
        """Whether the event of the job's end is among the events after a byte."""
        offset = min(max(offset, seen.size - copy_rules.PIECE), seen.size)
        return _END in (self._read(EVENTS_FILE, seen.inode, offset, seen.size - offset) or b"")


def _has_outputs(top: str) -> bool:
    """Whether any task has written one; also if that is not known."""
    try:
        attempts = [entry.path for entry in os.scandir(top) if entry.name.startswith("attempt-") and entry.is_dir()]
        tasks = [task.path for path in attempts for task in os.scandir(path) if task.is_dir(follow_symlinks=False)]
        return any(os.path.lexists(path) and os.listdir(path) for path in (f"{task}/{OUTPUT_DIR}" for task in tasks))
    except OSError:
        return True
