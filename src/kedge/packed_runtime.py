"""The runtime's modules in one file, from which a supervisor starts faster (kedge.runtime.packed_start explains it).

A bundle contains such a file. An installed kedge, or a checkout, has one in the user's cache. Its name is a key for the
interpreter and for the times and sizes of all modules, so a file that is out of date is never used.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from kedge import xdg
from kedge.errors import CannotRun

PACKAGE = Path(__file__).parent
FOLDER = PACKAGE / "runtime"  # a supervisor can also be started from there
START = "kedge.runtime.packed_start"
HEADER = 16  # bytes of a .pyc file before its code
PARTS = ("light", "runtime", "diagnose")  # besides the modules of kedge itself
# Modules of Python that a supervisor loads at its start, or for a diagnosis.
_PYTHON = ("__future__", "bisect", "collections", "functools", "keyword", "operator", "reprlib", "types")
_KEPT = 8  # files in the cache: kedge's own developers make a new one with every change


class PackedModule(NamedTuple):
    """A module: its path below the folder that holds the package, and its code as marshal.dumps writes it."""

    path: str
    code: bytes


def packed(modules: Mapping[str, PackedModule], folder: str) -> bytes:
    """The content of the file. `folder` holds the package; it is relative to the file's own folder, or absolute."""
    from importlib.util import MAGIC_NUMBER  # slow to load, as the others that only making a file needs

    start = modules[START].code
    index: dict[str, tuple[str, bool, int, int]] = {}
    at = 0
    for name, (path, code) in modules.items():
        index[name] = path, Path(path).stem == "__init__", at, len(code)
        at += len(code)
    written = marshal.dumps((folder, index))
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
        is_own = path.stat().st_uid == os.geteuid()  # another user's program must not run as this one
    except (CannotRun, OSError):
        return FOLDER
    return path if is_own else FOLDER


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
    return hashlib.sha256(told.encode()).hexdigest()[:32]


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
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # a loss of power must not leave an empty file, which would be used for ever
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    others = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    for each in others[_KEPT:]:
        with contextlib.suppress(FileNotFoundError):
            each.unlink()
