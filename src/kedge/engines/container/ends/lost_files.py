"""Notes about files that tasks wrote inside their containers and that are lost with them: how many, and the largest."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import NamedTuple

from kedge.engines.base import Task
from kedge.engines.container.api.client import Client
from kedge.engines.container.rendering.container_spec import ContainerSpec
from kedge.errors import CannotRun

# What programs leave besides results, and the system folders of an image.
_NOISE = frozenset({"__pycache__", "site-packages", "dist-packages"})
_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
)
_RESULTS = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".h5", ".onnx", ".npz", ".npy", ".pkl", ".parquet", ".csv")
_TIME_SEC = 5.0  # for all containers of a job together
_MOST_QUERIES = 10  # to the engine, about the files of one container
_LONGEST_PATH = 200


class LostFiles(NamedTuple):
    """The files that were lost with one container; `size` is that of the `largest` file, in bytes."""

    files: int
    largest: str
    size: int


class Looks:
    """Finds lost files in ended containers, within a total time limit. Safe for several threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._left = _TIME_SEC
        self._found: dict[Task, LostFiles] = {}
        self._missed = 0

    def look(self, task: Task, spec: ContainerSpec, workdir: str, layer: str | None) -> None:
        """Look at an ended container, whose image starts in `workdir`. `layer` is the folder of this machine that holds
        its changes, if known."""
        began = time.monotonic()
        with self._lock:
            self._found.pop(task, None)  # the result of an earlier attempt
            if self._left <= 0:
                self._missed += 1
                return
        try:
            found = self._look(spec, workdir, layer)
        except (CannotRun, LookupError, OSError, TypeError, ValueError):  # the note is optional
            found = None
        with self._lock:
            self._left -= time.monotonic() - began
            if found:
                self._found[task] = found

    def note(self) -> str | None:
        """The note for the user, if any."""
        return note(self._found, self._missed)

    def _look(self, spec: ContainerSpec, workdir: str, layer: str | None) -> LostFiles | None:
        mounts = [*(bind.target for bind in spec.binds), *spec.tmpfs]
        paths = outputs(self._client.changes(spec.name), mounts, workdir)
        is_readable = layer is not None and os.access(layer, os.R_OK | os.X_OK)
        sizes = _sizes(layer, paths) if layer and is_readable else self._query_sizes(spec.name, paths)
        files = len(sizes) if len(sizes) < _MOST_QUERIES or is_readable else len(paths)
        largest = max(sizes, key=lambda path: sizes[path], default=None)
        return LostFiles(files, largest, sizes[largest]) if largest is not None else None

    def _query_sizes(self, name: str, paths: list[str]) -> dict[str, int]:
        """The sizes of a few files, the likeliest results first."""
        likely = sorted(paths, key=lambda path: not path.endswith(_RESULTS))[:_MOST_QUERIES]
        sizes = ((path, self._client.file_size(name, path)) for path in likely)
        return {path: size for path, size in sizes if size is not None}


def outputs(changed: Iterable[str], mounts: Iterable[str], workdir: str) -> list[str]:
    """The changed paths of a container that may be results: those outside the system folders, unless the image starts
    in one. Pure."""
    every = set(changed)
    folders = {os.path.dirname(path) for path in every} | set(mounts)
    below = f"{workdir.rstrip('/')}/"
    return sorted(path for path in every - folders if _may_be_a_result(path, path.startswith(below) and below != "/"))


def _may_be_a_result(path: str, is_in_workdir: bool) -> bool:
    first, *rest = PurePosixPath(path).parts[1:]
    is_noise = any(part.startswith(".") or part in _NOISE for part in (first, *rest)) or path.endswith(".pyc")
    return not is_noise and (is_in_workdir or first not in _SYSTEM)


def _sizes(layer: str, paths: list[str]) -> dict[str, int]:
    """The sizes of the regular files. The engine found the paths without following links."""
    sizes = {}
    for path in paths:
        with suppress(OSError):
            found = os.lstat(layer + path)
            if stat.S_ISREG(found.st_mode):
                sizes[path] = found.st_size
    return sizes


def note(found: Mapping[Task, LostFiles], missed: int) -> str | None:
    """The note about all tasks; None if no files were lost. Pure."""
    if not found:
        return None
    count = sum(each.files for each in found.values())
    task, most = max(found.items(), key=lambda item: item[1].size)
    files = ("at least " if missed else "") + ("1 file was" if count == 1 else f"{count:,} files were")
    path = "".join(c if c.isprintable() else "?" for c in most.largest)[:_LONGEST_PATH]
    rest = f" (containers not checked, for lack of time: {missed})" if missed else ""
    which = "it is" if count == 1 else "the largest is"
    return (
        f"{files} written inside containers and lost{rest}; {which} {path} of {task} ({_shown(most.size)}). "
        "Write results below $KEDGE_OUTPUT_DIR or in a storage to keep them"
    )


def _shown(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
