"""Checking whether a bundle in the cache is still as it was built, and repairing it if not.

Beside the folder KEY is KEY.stamp: size, times, mode and inode of every file when the bundle was last found right. As
long as these are the same, the bundle is unchanged and no file is read; otherwise every file is compared with the
manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kedge.bundle import manifest
from kedge.own_files import replace_file

_FOLDER, _FILES = stat.S_IFDIR | 0o755, (stat.S_IFREG | 0o644, stat.S_IFREG | 0o755)


def is_intact(place: Path) -> bool:
    """Whether a bundle has exactly the files that were built."""
    found = _file_facts(place)
    if found is not None and found == _stamped(place):
        return True
    if found is None or not _is_right(place, set(found)):
        return False
    stamp(place)
    return True


def stamp(place: Path) -> None:
    """Record that a bundle is right as it is now. If that cannot be written, every use reads the whole bundle."""
    with suppress(OSError):
        replace_file(_stamp_file(place), json.dumps(_file_facts(place)).encode(), synced=False)


def distrust(place: Path) -> None:
    """Have the whole bundle checked at its next use, because a process started from it did not run."""
    with suppress(OSError):
        _stamp_file(place).unlink()


def repair(place: Path, fresh: Path) -> None:
    """Make a bundle equal to a new one, file by file, because containers may be using it. OSError if that fails."""
    wanted = {str(path.relative_to(fresh)): path for path in fresh.rglob("*")}
    for name in sorted(_names(place) - wanted.keys(), reverse=True):
        _remove(place / name)
    for name, path in sorted(wanted.items()):
        target = place / name
        if path.is_dir() and not path.is_symlink():
            if target.is_symlink() or not target.is_dir():
                _remove(target)
            target.mkdir(exist_ok=True)
            target.chmod(0o755)
        elif not _is_same(path, target):
            if target.is_dir():
                _remove(target)
            os.replace(path, target)
    place.chmod(0o755)
    stamp(place)


def _stamp_file(place: Path) -> Path:
    return place.with_name(f"{place.name}.stamp")


def _file_facts(place: Path) -> dict[str, list[int]] | None:
    """The size, times, mode and inode of every file. None if there is another kind of file, or a wrong mode."""
    found = {}
    try:
        for path, entry in _entries(place, ""):
            facts = entry.stat(follow_symlinks=False)
            if facts.st_mode not in (_FOLDER, *_FILES):
                return None
            if facts.st_mode in _FILES:
                found[path] = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode, facts.st_ino]
    except OSError:
        return None
    return found


def _entries(folder: Path | str, above: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield f"{above}{entry.name}", entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path, f"{above}{entry.name}/")


def _stamped(place: Path) -> object:
    try:
        return json.loads(_stamp_file(place).read_bytes())
    except (OSError, ValueError):
        return None


def _is_right(place: Path, names: set[str]) -> bool:
    """Whether the files match the manifest byte by byte, and the programs are executable."""
    try:
        entries = manifest.entries(place)
        programs = {name for name in names if (place / name).stat().st_mode & 0o100}
        return (
            names == {manifest.NAME, *(entry.path for entry in entries)}
            and programs == {entry.path for entry in entries if entry.program}
            and all(_sum(place / entry.path) == entry.sha256 for entry in entries)
        )
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _names(place: Path) -> set[str]:
    return {name for name, _ in _entries(place, "")}


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        facts = other.lstat()
        if stat.S_ISREG(facts.st_mode) and stat.S_IMODE(facts.st_mode) == stat.S_IMODE(one.stat().st_mode):
            return one.read_bytes() == other.read_bytes()
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
