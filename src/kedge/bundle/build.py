"""The bundle: a folder with the runtime and its own Python. This module is the interface of kedge.bundle for others.

    ensure() -> Bundle -> command(bundle, root)

cache.py finds or builds it; prune.py removes it. contents.py determines its files: kedge's own (kedge_files.py), the
modules they import (modules.py), interpreter and libraries (machine.py), scripts that start it (stubs.py). assemble.py
writes the folder; tar.py and oci.py turn it into an archive or an image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kedge.bundle import cache, manifest, repair, stubs
from kedge.bundle.layers import CORE, NET

BUILDING = "building the runtime's bundle; this happens once and takes a few seconds"
REPAIRING = "the runtime's bundle in the cache is damaged; repairing it takes a few seconds"


class Bundle(NamedTuple):
    """A finished bundle. `digest` identifies its whole content, in hex; `machine` is for example `x86_64`; `head` is
    its manifest."""

    path: Path
    digest: str
    machine: str
    head: dict[str, Any]


def ensure(layers: Sequence[str] = (CORE, NET)) -> Bundle:
    """The bundle of this kedge with these layers, built if it is not in the cache. CannotRun if this machine does not
    have everything it needs."""
    return opened(cache.ensure(layers))


@contextmanager
def held(layers: Sequence[str] = (CORE, NET)) -> Iterator[Bundle]:
    """Like `ensure`; the bundle is not pruned inside the context."""
    with cache.held(layers) as path:
        yield opened(path)


def to_do(layers: Sequence[str] = (CORE, NET)) -> str | None:
    """A note for the user about work that `ensure` will do and that takes seconds. None if the bundle is ready."""
    place = cache.path_of(layers)
    if not place.is_dir():
        return BUILDING
    return None if repair.is_intact(place) else REPAIRING


def distrust(bundle: Bundle) -> None:
    """Have the whole bundle checked at its next use, because a process started from it did not run."""
    repair.distrust(bundle.path)


def opened(path: Path) -> Bundle:
    """The bundle in a folder. OSError or ValueError if there is none."""
    head, digest = manifest.read(path)
    return Bundle(path, digest, head["machine"], head)


def command(bundle: Bundle, root: str) -> tuple[str, ...]:
    """The command that starts the supervisor from a bundle at `root`, without a shell. SPEC_FILE and options follow it.

    The caller must empty the variables of LOADER_VARIABLES that the image sets, see kedge.contract."""
    return (*stubs.command(root, bundle.head["interpreter"], bundle.head["loader"]), f"{root}/{stubs.START_FILE}")
