"""The runtime's modules in one file, from which a supervisor starts faster (kedge.runtime.packed_start explains it).

A bundle contains such a file. An installed kedge, or a checkout, has one in the user's cache. Its name is a key for the
interpreter and for the times and sizes of all modules, so a file that is out of date is never used.
"""

from __future__ import annotations

import marshal
import os
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from kedge import xdg
from kedge.errors import CannotRun
from kedge.light.hashlib import blake2b
from kedge.own_files import replace_file

PACKAGE = Path(__file__).parent
FOLDER = PACKAGE / "runtime"  # a supervisor can also be started from there
START = "kedge.runtime.packed_start"
LAUNCHER = "kedge.runtime.launch"  # what START runs, if nothing else is packed
HEADER = 16  # bytes of a .pyc file before its code
PARTS = ("light", "claims", "link", "runtime", "diagnose")  # besides the modules of kedge itself
# Modules of Python that a supervisor loads at its start, or for a diagnosis.
_PYTHON = ("__future__", "bisect", "collections", "functools", "keyword", "operator", "reprlib", "types")
_KEPT = 8  # files in the cache: kedge's own developers make a new one with every change


class PackedModule(NamedTuple):
    """A module: its path below the folder that holds the package, and its code as marshal.dumps writes it."""

    path: str
    code: bytes


def packed(modules: Mapping[str, PackedModule], folder: str, launcher: str = LAUNCHER) -> bytes:
    """The content of the file. `folder` holds the package; it is relative to the file's own folder, or absolute. The
    function `launch` of the module `launcher` runs at the start."""
    from importlib.util import MAGIC_NUMBER  # slow to load, as the others that only making a file needs

    start = modules[START].code
    index: dict[str, tuple[str, bool, int, int]] = {}
    at = 0
    for name, (path, code) in modules.items():
        index[name] = path, Path(path).stem == "__init__", at, len(code)
        at += len(code)
    written = marshal.dumps((folder, index, launcher))
    place = struct.pack("<II", HEADER + len(start), len(written))
    header = MAGIC_NUMBER + bytes(4) + place
    return b"".join((header, start, written, *(module.code for module in modules.values())))


def start_file(environment: Mapping[str, str]) -> Path:
    """What to start a supervisor from by `python -I -S`: the file in the user's cache, which is made if it is missing,
    or the runtime's folder if the cache cannot be used."""
    try:
        path = Path(xdg.cache(xdg.RUNTIMES, environment), f"{_key()}.pyc")
        if not path.exists():
            _write(path, packed(_installed_modules(), str(PACKAGE.parent)))
        os.utime(path)
        usable = _only_this_user_writes(path)
    except (CannotRun, OSError):
        return FOLDER
    return path if usable else FOLDER


def _only_this_user_writes(path: Path) -> bool:
    """Whether no other user can have put the file there, or can replace it: it is a program that runs as this user."""
    real = path.resolve()
    for each in (real, real.parent):
        found = each.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return all(_keeps_owners_apart(folder.stat()) for folder in real.parents)


def _keeps_owners_apart(folder: os.stat_result) -> bool:
    """Whether others cannot move what this user has in a folder. Members of its group can, but many users have a group
    of their own, to which all their folders are writable."""
    return folder.st_uid in (0, os.geteuid()) and folder.st_mode & (stat.S_IWOTH | stat.S_ISVTX) != stat.S_IWOTH


def _files() -> Iterator[os.DirEntry[str]]:
    yield from _modules_in(str(PACKAGE), rooms=False)
    for part in PARTS:
        yield from _modules_in(f"{PACKAGE}/{part}", rooms=True)


def _modules_in(folder: str, rooms: bool) -> Iterator[os.DirEntry[str]]:
    """The modules in a folder and (with `rooms`) in those below it. Every local job looks, and Path.glob takes ten
    times as long."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry
            elif rooms and entry.is_dir() and entry.name != "__pycache__":
                yield from _modules_in(entry.path, rooms)


def _key() -> str:
    stats = ((file.path, file.stat()) for file in _files())
    files = sorted((path, found.st_mtime_ns, found.st_size) for path, found in stats)
    told = repr((sys.version, sys.flags.optimize, str(PACKAGE), files))
    return blake2b(told.encode(), digest_size=16).hexdigest()


def _installed_modules() -> dict[str, PackedModule]:
    """The modules, from Python's own byte code where that is up to date."""
    from importlib.util import find_spec

    modules = {}
    for name in _PYTHON:
        found = find_spec(name)
        assert found
        assert found.origin
        modules[name] = PackedModule(found.origin, marshal.dumps(_code(name, found.origin)))
    for file in _files():
        path = Path(file).relative_to(PACKAGE.parent)
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        modules[name] = PackedModule(str(path), marshal.dumps(_code(name, file.path)))
    return modules


def _code(name: str, path: str) -> CodeType:
    from importlib.machinery import SourceFileLoader

    code = SourceFileLoader(name, path).get_code(name)
    assert code, "it has a source"
    return code


def _write(path: Path, data: bytes) -> None:
    """Write the file in one step, and remove those that were not used for the longest time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, data)  # synced: a loss of power must not leave an empty file, which would be used for ever
    with suppress(FileNotFoundError):  # another process does the same
        files = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for each in files[_KEPT:]:
            each.unlink(missing_ok=True)
