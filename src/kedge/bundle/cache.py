"""Bundles that were built once: $XDG_CACHE_HOME/kedge/bundles/KEY, where the key names all that they were built from.

A folder under its key is whole: it is built aside and moved there in one step, by one process at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kedge import xdg
from kedge.bundle import layers, machine, repair
from kedge.errors import CannotRun
from kedge.own_files import open_own

PACKAGE = Path(__file__).parents[1]
_LIBRARIES = "/etc/ld.so.cache"  # written anew whenever a package brings a library
_CARRIED = frozenset({".py", ".json", ".toml"})


def folder() -> Path:
    """Where the cache is. CannotRun for a user without a home folder."""
    return Path(xdg.cache(xdg.BUNDLES, os.environ))


def path_of(chosen: Sequence[str]) -> Path:
    """Where the bundle with these layers is, or will be."""
    return folder() / key(chosen)


def ensure(chosen: Sequence[str]) -> Path:
    """The folder of the bundle with these layers, built if it is not there, repaired if it is not as it was built.
    CannotRun says why it cannot be."""
    place = path_of(chosen)
    with _errors(place):
        if not place.is_dir():
            with locked(place):
                if not place.is_dir():
                    place.unlink(missing_ok=True)
                    _build(place, chosen)
        elif not repair.is_intact(place):
            _repair(place, chosen)
    with contextlib.suppress(OSError):
        os.utime(place)  # when it was last used
    return place


@contextlib.contextmanager
def held(chosen: Sequence[str]) -> Iterator[Path]:
    """The same, and nobody prunes it meanwhile: a lock tells that exactly, however long a job runs."""
    while True:
        place = ensure(chosen)
        with locked(place, fcntl.LOCK_SH):
            if place.exists():
                yield place
                return


def key(chosen: Sequence[str]) -> str:
    """A name for what the bundle would be built from: kedge's files, the interpreter, the packages of the layers, the
    machine's libraries."""
    digest = hashlib.sha256(repr((tuple(chosen), sys.version, machine.machine())).encode())
    for file in sorted(_files(chosen)):
        digest.update(f"{file.relative_to(PACKAGE)}\0".encode() + file.read_bytes())
    installed = [importlib.util.find_spec(name) for layer in chosen for name in layers.PACKAGES[layer]]
    origins = [spec.origin for spec in installed if spec and spec.origin]
    for path in (str(machine.base_executable()), _LIBRARIES, *origins):
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(path)
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:32]


def _files(chosen: Sequence[str]) -> Iterator[Path]:
    """kedge's files that may be carried, and those that say how."""
    parts = ("",) if layers.INIT in chosen else ("runtime", "diagnose", "bundle")
    for file in (*PACKAGE.glob("*.py"), *(file for part in parts for file in (PACKAGE / part).rglob("*"))):
        if file.suffix in _CARRIED:
            yield file


def _build(path: Path, chosen: Sequence[str]) -> None:
    """Build aside, and move it to its place. What builders that were killed have left goes, too."""
    sweep(path)
    with _built(path, chosen) as fresh:
        os.rename(fresh, path)
    repair.stamp(path)


def _repair(path: Path, chosen: Sequence[str]) -> None:
    """Build aside, and take over what differs. Jobs that use it hold its lock, too, and go on."""
    with locked(path, fcntl.LOCK_SH), _built(path, chosen) as fresh:
        repair.repair(path, fresh)


@contextlib.contextmanager
def _built(path: Path, chosen: Sequence[str]) -> Iterator[Path]:
    """A new bundle beside its place."""
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        importlib.import_module("kedge.bundle.assemble").assemble(partial, chosen)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sweep(place: Path) -> None:
    """Remove what was never finished, or has been moved aside to be removed; its lock is held."""
    for left in place.parent.glob(f".{place.name}.*"):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def locked(place: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of a bundle. BlockingIOError with LOCK_NB when another has it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDONLY if kind == fcntl.LOCK_SH else os.O_RDWR  # NFS wants just these
    with open(open_own(f"{place}.lock", flags, 0o644), "rb") as lock:
        fcntl.flock(lock, kind)
        yield


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotRun(f"the bundle cannot be built in {path.parent}: {error}") from error
