"""Which files of a run folder are copied to the machine of its user, in which order, and how two copies are compared.

The order is that in which the files are written: the index of a log before the log, both before the records of the
task, these before the report and the events of the job. They are looked at in the opposite order. So whoever reads the
copy sees what a reader beside the controller would see, only later.
"""

from __future__ import annotations

import os

from kedge.contract import (
    CURRENT,
    ERROR_FILE,
    EVENTS_FILE,
    LOG_TIMES,
    OUTPUT_DIR,
    REPORT_FILE,
    STREAMS,
    TERMINATION_LOG,
)
from kedge.light.hashlib import blake2b
from kedge.light.types import Any, NamedTuple

# Kinds of messages from the machine of the user.
KNOWN = "known"  # {"files": [KnownFile...]}: what is there already, in any number of messages before START
START = "start"  # the fields of a CopyOrder
ALIVE = "alive"  # {}: at least every QUIET_SEC
# Kinds of messages from the folder.
COPY = "copy"  # {"copy", "run"}: the first one: which copy of the run folder this is, and its run.json
FOLDER = "folder"  # {"path"}: it exists
WRITE = "write"  # {"path", "offset", "inode", "new", "last", "grows", "time"} and bytes
RENAME = "rename"  # {"path", "to"}
REMOVE = "remove"  # {"path"}
# {"ended", "outputs": whether there may be any}: all was sent that was there at the last look; at least every QUIET_SEC
SYNCED = "synced"
FAILED = "failed"  # {"text"}: why nothing more comes

PIECE = 128 << 10  # bytes of a WRITE
QUIET_SEC = 1.0
SILENCE_SEC = 30.0  # after this without any message the other side is gone
# The order of sending: INDEX, LOG, RECORD (of a task, or anything else), then of the job JOB_REPORT and JOB_EVENTS.
INDEX, LOG, RECORD, OUTPUT, JOB_REPORT, JOB_EVENTS = range(6)
_OF_MACHINE = ("run.json", "engine.json", "processes.jsonl")  # what a command on this machine acts on
JOB_REPORTS = ("report.json", "report.md")
_OWN = frozenset({"cluster", "code", "job-dir", "storages", "lock", *_OF_MACHINE})
_TASK_FOLDERS = frozenset({"code", "work", "pai", "secrets"})
_REPLACED = frozenset({REPORT_FILE, TERMINATION_LOG, ERROR_FILE, "peers.json"})
_LONGEST, _DEEPEST = 4096, 40
_HEAD, _SAMPLE = 32, 4096  # bytes


class KnownFile(NamedTuple):
    """A file of the copy: the inode of its original if that is known (else 0), its size, its time in nanoseconds, the
    fingerprint of its bytes, and its first bytes in hexadecimal digits."""

    path: str
    inode: int
    size: int
    time: int
    print: str
    head: str


class CopyOrder(NamedTuple):
    """What is wanted: the `records` of the job and its tasks, `logs`, `outputs` below these folders (of tasks, such as
    `attempt-0/worker-1`; an empty text for all). The user's machine has a part of `copy` already. With `follow` news
    are sent until the end."""

    copy: str = ""
    records: bool = True
    logs: bool = True
    outputs: tuple[str, ...] = ()
    follow: bool = False

    def wants(self, path: str) -> bool:
        """Whether a file is wanted."""
        place = group(path)
        if place in (INDEX, LOG):
            return self.logs
        if place == OUTPUT:
            return any(not each or path.startswith(f"{each}/") for each in self.outputs)
        return place is not None and self.records


def group(path: str) -> int | None:
    """Where a file stands in the order; None if it is never copied. Outputs are recognised by the path, too."""
    parts = path.split("/")
    if parts[0] in _OWN or not _is_plain(path, parts):
        return None
    if len(parts) == 1:
        return JOB_EVENTS if path == EVENTS_FILE else JOB_REPORT if path in JOB_REPORTS else RECORD
    if not parts[0].startswith("attempt-") or len(parts) < 4:
        return None if parts[2:] and parts[2] in _TASK_FOLDERS else RECORD
    return _in_task(parts[2])


def _in_task(folder: str) -> int | None:
    """The order of what is in a folder of a task."""
    if folder == OUTPUT_DIR:
        return OUTPUT
    if folder in _TASK_FOLDERS:
        return None
    return INDEX if folder == LOG_TIMES else LOG if folder in STREAMS else RECORD


def is_folder(path: str) -> bool:
    """Whether there may be files to copy below a folder."""
    return group(f"{path}/x") is not None


def is_plain(path: Any) -> bool:
    """Whether this is the path of a file or folder that may be copied, in plain words."""
    return isinstance(path, str) and _is_plain(path, path.split("/")) and path.split("/")[0] not in _OWN


def _is_plain(path: str, parts: list[str]) -> bool:
    if len(path) > _LONGEST or len(parts) > _DEEPEST or "\0" in path:
        return False
    if any("\ud800" <= character <= "\udfff" for character in path):
        return False
    hidden = parts if OUTPUT_DIR not in parts[2:3] else parts[:2]
    return all(part not in ("", ".", "..") for part in parts) and not any(part[0] == "." for part in hidden)


def grows(path: str) -> bool:
    """Whether bytes are only added to a file. Others are replaced as a whole."""
    name = path.rpartition("/")[2]
    place = group(path)
    if place in (INDEX, LOG):
        return True
    return place in (RECORD, JOB_EVENTS) and name not in _REPLACED and name.endswith((".log", ".jsonl"))


def is_current(path: str) -> bool:
    """Whether it is the file in which a log, or its index, grows: it gets another name when it is full."""
    return path.endswith(f"/{CURRENT}") and group(path) in (INDEX, LOG)


def order(path: str) -> tuple[int, str]:
    """The key by which files are sorted before they are sent: full files of a log before the current one."""
    return group(path) or 0, path


def fingerprint(fd: int, size: int) -> str:
    """The same for two files whose first `size` bytes are the same; of long ones, the first and the last of these."""
    sample = os.pread(fd, min(size, _SAMPLE), 0) + os.pread(fd, min(size, _SAMPLE), max(0, size - _SAMPLE))
    return blake2b(sample, digest_size=12).hexdigest()


def head(fd: int, size: int) -> str:
    """The first bytes of a file of which `size` are there, in hexadecimal digits."""
    return os.pread(fd, min(size, _HEAD), 0).hex()
