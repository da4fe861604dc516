"""What both sides agree on when the files of a task are mirrored over the link: which files, and how to tell whether
two of them begin with the same bytes."""

from __future__ import annotations

import os

from kedge.contract import (
    CURRENT,
    ERROR_FILE,
    EVENTS_FILE,
    LOG_TIMES,
    OUTPUT_DIR,
    REPORT_FILE,
    RUNTIME_LOG,
    STREAMS,
    SUPERVISOR_LOG,
    TERMINATION_LOG,
)  # fmt: skip
from kedge.light.hashlib import blake2b

# What a FILE message asks for: its key `do`.
ASK = "ask"  # {}: answer with OFFSETS
WRITE = "write"  # {"path", "offset", "new"} and bytes; `new`: the file is another one than before, and begins empty
RENAME = "rename"  # {"path", "to"}, of a log or record
REMOVE = "remove"  # {"path"}, the same
END = "end"  # {"skipped_files", "skipped_bytes"}: all has been sent but these outputs, which were too large

# First what is small and matters most.
SINGLE_FILES = (
    EVENTS_FILE, REPORT_FILE, TERMINATION_LOG, ERROR_FILE, f"{LOG_TIMES}/{RUNTIME_LOG}", RUNTIME_LOG, SUPERVISOR_LOG,
)  # fmt: skip
LOG_FOLDERS = tuple(f"{above}{stream}" for stream in STREAMS for above in (f"{LOG_TIMES}/", ""))
PIECE = 256 << 10  # bytes of a WRITE
MARK = ".mirrored"  # in the folder of a task attempt at the controller; written after all that is stored there
_LABEL = 24  # hexadecimal digits
_LONGEST_PATH, _DEEPEST = 2048, 32
_SAMPLE = 64 << 10  # bytes, at the beginning and at the end


def is_log_name(name: str) -> bool:
    """Whether a file in one of LOG_FOLDERS belongs to a log."""
    if name == CURRENT:
        return True
    label = name[1 : _LABEL + 1]
    return name == f"@{label}{name[-2:]}" and name.endswith((".s", ".u")) and _is_label(label)


def is_log(path: str) -> bool:
    """Whether a path is that of a file which grows while the task runs."""
    folder, _, name = path.rpartition("/")
    return path in SINGLE_FILES or (folder in LOG_FOLDERS and is_log_name(name))


def order(path: str) -> int:
    """In which order files are sent: what is small and matters most first, the index of a log before the log."""
    return SINGLE_FILES.index(path) if path in SINGLE_FILES else len(SINGLE_FILES) + path.startswith(STREAMS)


def without_overwriting(renamed: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Renames in an order in which none overwrites a file that is still to be renamed."""
    left, ordered = list(renamed), []
    while left:
        waiting = {path for path, _ in left}
        free = [one for one in left if one[1] not in waiting - {one[0]}] or left[:1]
        ordered += free
        left = [one for one in left if one not in free]
    return ordered


def is_output(path: str) -> bool:
    """Whether a path is below the folder of outputs, in plain words, and can be sent: it is UTF-8."""
    first, *parts = path.split("/")
    if any("\ud800" <= character <= "\udfff" for character in path):
        return False
    plain = all(part not in ("", ".", "..") and "\0" not in part and len(part.encode()) < 256 for part in parts)
    return first == OUTPUT_DIR and bool(parts) and len(parts) <= _DEEPEST and len(path) <= _LONGEST_PATH and plain


def fingerprint(fd: int, size: int) -> str:
    """The same for two files whose first `size` bytes are the same; of long ones, the first and the last of these."""
    sample = os.pread(fd, min(size, _SAMPLE), 0) + os.pread(fd, min(size, _SAMPLE), max(0, size - _SAMPLE))
    return blake2b(sample, digest_size=16).hexdigest()


def _is_label(text: str) -> bool:
    return len(text) == _LABEL and all(character in "0123456789abcdef" for character in text)
