"""Whether a bundle in the cache is still as it was built, and its repair if it is not.

Beside the folder KEY lies KEY.stamp: size, times, mode and inode of every file when all of it was known to be right. As
long as they are the same, nobody has touched it, and no file is read; else every file is compared with the manifest.
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

_FOLDER, _FILES = stat.S_IFDIR | 0o755, (stat.S_IFREG | 0o644, stat.S_IFREG | 0o755)


def is_intact(place: Path) -> bool:
    """Whether all of a bundle is there as it was built, and nothing else."""
    seen = _look(place)
    if seen is not None and seen == _stamped(place):
        return True
    if seen is None or not _is_right(place, set(seen)):
        return False
    stamp(place)
    return True


def stamp(place: Path) -> None:
    """Note that all of a bundle is right as it is. Where that cannot be written, every use reads all of it."""
    with suppress(OSError):
        new = _stamp_file(place).with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(_look(place)))
        os.replace(new, _stamp_file(place))


def distrust(place: Path) -> None:
    """Have the next use check all of it: a process that was started from it did not run."""
    with suppress(OSError):
        _stamp_file(place).unlink()


def repair(place: Path, fresh: Path) -> None:
    """Make a bundle the same as one that was just built, file by file: containers may be using it. OSError as it
    comes."""
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


def _look(place: Path) -> dict[str, list[int]] | None:
    """What the file system says of every file; None if something is no file or folder with the mode of one."""
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
    """Whether the files are those of the manifest, byte by byte; and those that were programs still are."""
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
