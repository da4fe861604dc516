"""Stores what an agent sends of its task's files, where tasks and controller share no folder.

Nothing of it is trusted: a task may have changed its own files and the agent. Only known names and outputs are stored,
below the folder of the task attempt, up to a limit.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from kedge.engines.cluster.mirror_mark import MirrorMark
from kedge.engines.cluster.mirror_store import MirrorStore
from kedge.link import mirroring

LIMIT = 16 << 30  # bytes of a task attempt
_LONGEST_ID = 64
_MOST_ASKED = 100  # times; each agent asks once, and once more each controller


class MirroredTask:
    """The files of one task attempt, in `folder`, which exists. Only the controller writes there.

    `complete`: everything that will come has arrived. `missing` names what was not stored, for the user; it is empty if
    all was.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self._store = MirrorStore(folder, limit)
        self._mark = MirrorMark(folder)
        self._asked = 0

    @property
    def complete(self) -> bool:
        return self._mark.skipped is not None

    @property
    def missing(self) -> str:
        parts = [] if self.complete else [self._unknown()]
        files, size = self._mark.skipped or (0, 0)
        if files:
            parts.append(f"outputs that were not copied, too many or too large: {files} ({size} bytes)")
        if self._store.dropped:
            parts.append(f"{self._store.dropped} bytes were not stored: {self._store.reason}")
        elif self._mark.dropped:
            parts.append(f"{self._mark.dropped} bytes were not stored by an earlier controller")
        return "; ".join(parts)

    def _unknown(self) -> str:
        ends = self._store.ends()
        after = f"nothing is known after {ends}" if ends else "they have not come"
        return f"the end of its logs and its outputs may be missing: {after}"

    def take(self, header: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """Store what a FILE message says; afterwards it may be acknowledged. Returns the header of the OFFSETS that
        answer it, if any. A message that came before, to this controller or to one before it, changes nothing, and a
        wrong one neither. A full disk is no error: what cannot be stored is `missing`."""
        what, mirror, number = header.get("do"), str(header.get("mirror")), header.get("op")
        if what == mirroring.ASK:  # even if it was answered: the controller before may have died with the answer
            self._asked += 1
            if self._asked > _MOST_ASKED:  # an answer takes a while, in which other tasks wait
                return None
            return {
                "task_attempt": header.get("task_attempt"),
                "files": self._store.offsets(),
                "complete": self.complete,
            }
        if not _is_id(mirror) or type(number) is not int or self._mark.has(mirror, number):
            return None
        with suppress(KeyError, TypeError, ValueError):
            self._do(str(what), header, body)
        self._mark.set(mirror, number)
        return None

    def close(self) -> None:
        """Release everything. What has arrived stays."""
        self._mark.close()
        self._store.close()

    def _do(self, what: str, header: dict[str, Any], body: bytes) -> None:
        if what == mirroring.WRITE:
            self._store.write(_path(header["path"]), _count(header["offset"]), body, new=header.get("new") is True)
        elif what == mirroring.RENAME:
            self._store.rename(_log(header["path"]), _log(header["to"]))
        elif what == mirroring.REMOVE:
            self._store.remove(_log(header["path"]))
        elif what == mirroring.END:
            self._mark.skipped = (_count(header["skipped_files"]), _count(header["skipped_bytes"]))
            self._mark.dropped = self._store.dropped


def _is_id(value: str) -> bool:
    return value.isascii() and value.isalnum() and len(value) <= _LONGEST_ID


def _path(value: Any) -> str:
    if not isinstance(value, str) or not (mirroring.is_log(value) or mirroring.is_output(value)):
        raise ValueError("not a file that is mirrored")
    return value


def _log(value: Any) -> str:
    if not mirroring.is_log(_path(value)):
        raise ValueError("not a file that changes")
    return str(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError("not a number of bytes")
    return value
