"""What the user's machine has of the files of a run, as the sender knows it: which file of now each of them is."""

from __future__ import annotations

import os

from kedge import untrusted
from kedge.engines.kubernetes.access import copy_rules
from kedge.engines.kubernetes.access.copy_rules import KnownFile
from kedge.engines.kubernetes.access.folder_scan import SeenFile
from kedge.light.contextlib import suppress
from kedge.light.types import Mapping


class SentFile:
    """A file of which the first `offset` bytes were sent. `seen` is how it was then; `waits_for`: of a file that the
    user's machine has more of than this folder, which may not have it at all yet, nothing is sent until it has come as
    far again. `held`: it is kept open, so that no other file gets its inode."""

    __slots__ = ("held", "inode", "offset", "seen", "waits_for")

    def __init__(
        self, inode: int, offset: int, seen: SeenFile | None = None, waits_for: KnownFile | None = None
    ) -> None:
        self.inode, self.offset, self.seen, self.waits_for = inode, offset, seen, waits_for
        self.held = -1

    def __del__(self) -> None:
        if self.held >= 0:
            os.close(self.held)


def recognised(
    top: str, known: Mapping[str, KnownFile], present: Mapping[str, SeenFile], same_copy: bool
) -> dict[str, SentFile]:
    """The known files that are present, by their known paths; under another name if they were renamed meanwhile. With
    `same_copy`, those that are gone are among them, too: they will be removed."""
    found = {}
    by_inode = {(_folder(path), seen.inode): path for path, seen in present.items()}
    taken: set[str] = set()
    for path, file in known.items():
        inode = file.inode if same_copy else 0
        name = by_inode.get((_folder(path), inode)) if inode else None
        if name != path and not copy_rules.is_current(path):
            name = None
        if name is None or not _continues(top, name, file, present[name]):
            name = _by_content(top, file, present, taken)
        if name is not None:
            taken.add(name)
            found[path] = _sent(file, present[name])
        elif inode:
            found[path] = SentFile(inode, file.size)
        elif copy_rules.grows(path):
            found[path] = SentFile(0, 0, waits_for=file)
    return found


def has_come_as_far(top: str, path: str, seen: SeenFile, wanted: KnownFile) -> bool | None:
    """Whether a file continues what is known of it; None: it is not as long yet, but begins like it."""
    if seen.size < wanted.size:
        return None if _begins_like(top, path, seen, wanted) else False
    return _same(top, path, wanted)


def _sent(file: KnownFile, seen: SeenFile) -> SentFile:
    return SentFile(seen.inode, file.size, seen if seen.size == file.size else None)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _continues(top: str, path: str, file: KnownFile, seen: SeenFile) -> bool:
    """Whether the file at a path, which has the known inode, is still the known one or has grown."""
    if not copy_rules.grows(path):
        return (seen.size, seen.time) == (file.size, file.time)
    return seen.size >= file.size and _same(top, path, file)


def _by_content(top: str, file: KnownFile, present: Mapping[str, SeenFile], taken: set[str]) -> str | None:
    """The path of the file that begins with the known bytes; of one that is replaced as a whole, with no more."""
    same_folder = (path for path in present if _folder(path) == _folder(file.path)) if _is_log(file.path) else ()
    paths: tuple[str, ...] = (file.path, *same_folder)
    for path in paths:
        seen = present.get(path)
        if seen is None or path in taken or seen.size < file.size:
            continue
        if (copy_rules.grows(path) or seen.size == file.size) and _same(top, path, file):
            return path
    return None


def _is_log(path: str) -> bool:
    """Whether it may have been renamed."""
    return copy_rules.group(path) in (copy_rules.INDEX, copy_rules.LOG)


def _same(top: str, path: str, file: KnownFile) -> bool:
    with suppress(OSError):
        fd = untrusted.open_regular(top, path)
        try:
            return copy_rules.fingerprint(fd, file.size) == file.print
        finally:
            os.close(fd)
    return False


def _begins_like(top: str, path: str, seen: SeenFile, file: KnownFile) -> bool:
    with suppress(OSError):
        fd = untrusted.open_regular(top, path)
        try:
            return file.head.startswith(copy_rules.head(fd, seen.size))
        finally:
            os.close(fd)
    return False
