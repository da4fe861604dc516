"""The cache of bundles: $XDG_CACHE_HOME/kedge/bundles/KEY, where the key identifies everything they were built from.

A folder named by its key is complete: it is built beside its place and moved there in one step, by one process at a
time.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kedge import lock_waits, packed_runtime, xdg
from kedge.bundle import busybox, layers, machine, repair
from kedge.errors import CannotRun
from kedge.own_files import open_own

PACKAGE = Path(__file__).parents[1]
_LIBRARIES = "/etc/ld.so.cache"  # rewritten whenever a package installs a library
_PATIENCE_SEC = 300.0  # a bundle is built in some seconds, on a slow file system in a minute
_CARRIED = frozenset({".py", ".json", ".toml"})


def folder() -> Path:
    """The folder of the cache. CannotRun if the user has no home folder."""
    return Path(xdg.cache(xdg.BUNDLES, os.environ))


def path_of(chosen: Sequence[str]) -> Path:
    """The path of the bundle with these layers, whether or not it exists."""
    return folder() / key(chosen)


def ensure(chosen: Sequence[str], before_build: Callable[[], object] = lambda: None) -> Path:
    """The folder of the bundle with these layers. It is built if it is missing, after a call of `before_build`, and
    repaired if it has changed. CannotRun explains why that is not possible."""
    place = path_of(chosen)
    with _errors(place):
        if not place.is_dir():
            before_build()
            with locked(place):
                if not place.is_dir():
                    place.unlink(missing_ok=True)
                    _build(place, chosen)
        elif not repair.is_intact(place):
            _repair(place, chosen)
    with contextlib.suppress(OSError):
        os.utime(place)  # records the time of the last use
    return place


@contextlib.contextmanager
def held(chosen: Sequence[str], before_build: Callable[[], object] = lambda: None) -> Iterator[Path]:
    """Like `ensure`; a lock keeps the bundle from being pruned inside the context, however long a job runs."""
    while True:
        place = ensure(chosen, before_build)
        with locked(place, fcntl.LOCK_SH):
            if place.exists():
                yield place
                return


def key(chosen: Sequence[str]) -> str:
    """A key for everything that the bundle would be built from: kedge's files, the interpreter, the packages of the
    layers, the machine's libraries."""
    digest = hashlib.sha256(repr((tuple(chosen), sys.version, machine.machine())).encode())
    for file in sorted(_files(chosen)):
        digest.update(f"{file.relative_to(PACKAGE)}\0".encode() + file.read_bytes())
    installed = [importlib.util.find_spec(name) for layer in chosen for name in layers.PACKAGES[layer]]
    origins = [spec.origin for spec in installed if spec and spec.origin]
    shell = busybox.find() if layers.SHELL in chosen else None
    for path in (str(machine.base_executable()), _LIBRARIES, *origins, *([str(shell)] if shell else [])):
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(path)
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:32]


def _files(chosen: Sequence[str]) -> Iterator[Path]:
    """kedge's files that the bundle may contain, and those that determine how it is built."""
    parts = ("",) if {layers.INIT, layers.DRIVER} & {*chosen} else (*packed_runtime.PARTS, "link", "bundle")
    for file in (*PACKAGE.glob("*.py"), *(file for part in parts for file in (PACKAGE / part).rglob("*"))):
        if file.suffix in _CARRIED:
            yield file


def _build(path: Path, chosen: Sequence[str]) -> None:
    """Build the bundle beside its place and move it there. Remove what killed builders have left."""
    sweep(path)
    with _built(path, chosen) as fresh:
        os.rename(fresh, path)
    repair.stamp(path)


def _repair(path: Path, chosen: Sequence[str]) -> None:
    """Build the bundle again, and replace the files that differ. Jobs that use the bundle share its lock and go on."""
    with locked(path, fcntl.LOCK_SH), _built(path, chosen) as fresh:
        repair.repair(path, fresh)


@contextlib.contextmanager
def _built(path: Path, chosen: Sequence[str]) -> Iterator[Path]:
    """Build a new bundle in a temporary folder beside its place."""
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        importlib.import_module("kedge.bundle.assemble").assemble(partial, chosen)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sweep(place: Path) -> None:
    """Remove unfinished bundles, and bundles that were renamed to be removed. The caller holds the lock."""
    for left in place.parent.glob(f".{place.name}.*"):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def locked(place: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of a bundle. BlockingIOError with LOCK_NB if another process holds it. CannotRun: it is held for
    too long, perhaps by a process on another machine that hangs, or there are no locks."""
    flags = os.O_RDONLY if kind == fcntl.LOCK_SH else os.O_RDWR  # NFS requires exactly these
    with _errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = open_own(f"{place}.lock", flags, 0o644)
    try:
        with _errors(place):
            _lock(lock, kind, place)
        yield
    finally:
        os.close(lock)


def _lock(lock: int, kind: int, place: Path) -> None:
    patience_sec = 0.0 if kind & fcntl.LOCK_NB else _PATIENCE_SEC
    try:
        lock_waits.lock(lock, kind & ~fcntl.LOCK_NB, patience_sec, _say_waiting)
    except lock_waits.StillLocked as holder:
        if kind & fcntl.LOCK_NB:
            raise BlockingIOError from None
        raise CannotRun(
            f"the bundle {place} has been in the hands of {holder} for {_PATIENCE_SEC:g} s: end that process if it "
            "hangs, or set XDG_CACHE_HOME to another folder"
        ) from None


def _say_waiting(holder: str) -> None:
    print(f"note: the runtime's bundle is in the hands of {holder}; waiting for it", file=sys.stderr)


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise CannotRun(f"the bundle cannot be built in {path.parent}: {error}") from error
