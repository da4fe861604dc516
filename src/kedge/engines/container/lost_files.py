"""Files that tasks have written inside their containers, and that are gone with them: how many, and the largest."""

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
from kedge.engines.container.client import Client
from kedge.engines.container.container_spec import ContainerSpec
from kedge.errors import CannotRun

# What programs leave beside their results, and what belongs to the system that an image holds.
_NOISE = frozenset({"__pycache__", "site-packages", "dist-packages"})
_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
)
_RESULTS = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".h5", ".onnx", ".npz", ".npy", ".pkl", ".parquet", ".csv")
_TIME_SEC = 5.0  # for all containers of a job together
_MOST_QUESTIONS = 10  # to the engine about the files of one container
_LONGEST_PATH = 200


class Unkept(NamedTuple):
    """What one container took with it; `size` of the `largest` file is in bytes."""

    files: int
    largest: str
    size: int


class Looks:
    """Looks at containers that have ended, by several threads, as long as that does not take long in all."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._left = _TIME_SEC
        self._found: dict[Task, Unkept] = {}
        self._missed = 0

    def look(self, task: Task, spec: ContainerSpec, workdir: str, layer: str | None) -> None:
        """At one that has ended, whose image starts in `workdir`. `layer` is the folder of this machine that holds what
        it has changed, if known."""
        began = time.monotonic()
        with self._lock:
            self._found.pop(task, None)  # of an attempt before
            if self._left <= 0:
                self._missed += 1
                return
        try:
            found = self._look(spec, workdir, layer)
        except (CannotRun, LookupError, OSError, TypeError, ValueError):  # it is a courtesy
            found = None
        with self._lock:
            self._left -= time.monotonic() - began
            if found:
                self._found[task] = found

    def note(self) -> str | None:
        """What the submitter should know, if anything."""
        return note(self._found, self._missed)

    def _look(self, spec: ContainerSpec, workdir: str, layer: str | None) -> Unkept | None:
        mounts = [*(bind.target for bind in spec.binds), *spec.tmpfs]
        paths = outputs(self._client.changes(spec.name), mounts, workdir)
        is_readable = layer is not None and os.access(layer, os.R_OK | os.X_OK)
        sizes = _sizes(layer, paths) if layer and is_readable else self._ask(spec.name, paths)
        files = len(sizes) if len(sizes) < _MOST_QUESTIONS or is_readable else len(paths)
        largest = max(sizes, key=lambda path: sizes[path], default=None)
        return Unkept(files, largest, sizes[largest]) if largest is not None else None

    def _ask(self, name: str, paths: list[str]) -> dict[str, int]:
        """The sizes of a few, the likeliest results first."""
        likely = sorted(paths, key=lambda path: not path.endswith(_RESULTS))[:_MOST_QUESTIONS]
        sizes = ((path, self._client.file_size(name, path)) for path in likely)
        return {path: size for path, size in sizes if size is not None}


def outputs(changed: Iterable[str], mounts: Iterable[str], workdir: str) -> list[str]:
    """The paths among those that a container has changed that may be somebody's results: outside of the system's
    folders, unless the image starts in there. Pure."""
    every = set(changed)
    folders = {os.path.dirname(path) for path in every} | set(mounts)
    below = f"{workdir.rstrip('/')}/"
    return sorted(path for path in every - folders if _may_be_a_result(path, path.startswith(below) and below != "/"))


def _may_be_a_result(path: str, is_in_workdir: bool) -> bool:
    first, *rest = PurePosixPath(path).parts[1:]
    is_noise = any(part.startswith(".") or part in _NOISE for part in (first, *rest)) or path.endswith(".pyc")
    return not is_noise and (is_in_workdir or first not in _SYSTEM)


def _sizes(layer: str, paths: list[str]) -> dict[str, int]:
    """Of the regular files. The engine has found the paths without following a link."""
    sizes = {}
    for path in paths:
        with suppress(OSError):
            found = os.lstat(layer + path)
            if stat.S_ISREG(found.st_mode):
                sizes[path] = found.st_size
    return sizes


def note(found: Mapping[Task, Unkept], missed: int) -> str | None:
    """One sentence about all tasks. Pure."""
    if not found:
        return None
    count = sum(each.files for each in found.values())
    task, most = max(found.items(), key=lambda item: item[1].size)
    files = ("at least " if missed else "") + ("1 file was" if count == 1 else f"{count:,} files were")
    path = "".join(c if c.isprintable() else "?" for c in most.largest)[:_LONGEST_PATH]
    rest = f" (containers not looked at, for lack of time: {missed})" if missed else ""
    which = "it is" if count == 1 else "the largest is"
    return (
        f"{files} written inside containers and not kept{rest}; {which} {path} of {task} ({_shown(most.size)}). "
        "What is written below $PAI_LOG_DIR, or in a storage, is kept"
    )


def _shown(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
