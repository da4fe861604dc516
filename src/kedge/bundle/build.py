"""The bundle: a folder that holds the runtime and a Python of its own. What others use of kedge.bundle is here.

    ensure() -> Bundle -> command(bundle, root)

cache.py finds it, or has it built; prune.py removes it. parts.py says what belongs into it: kedge's files (own.py),
what they import (modules.py), interpreter and libraries (machine.py), scripts that start it (stubs.py). assemble.py
writes the folder; tar.py and oci.py make one file and an image of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kedge.bundle import cache, manifest, repair, stubs
from kedge.bundle.layers import CORE, NET

BUILDING = "building the runtime's bundle, once: this takes some seconds"
REPAIRING = "the runtime's bundle in the cache is damaged: building it again takes some seconds"


class Bundle(NamedTuple):
    """A finished bundle. `digest` is that of all that it holds, in hex; `machine` as in `x86_64`; `head` is its
    manifest."""

    path: Path
    digest: str
    machine: str
    head: dict[str, Any]


def ensure(layers: Sequence[str] = (CORE, NET)) -> Bundle:
    """The bundle of this kedge with these layers, built if it is not in the cache. CannotRun says what this machine
    lacks for it."""
    return opened(cache.ensure(layers))


@contextmanager
def held(layers: Sequence[str] = (CORE, NET)) -> Iterator[Bundle]:
    """The same, for as long as something uses it: it is not pruned meanwhile."""
    with cache.held(layers) as path:
        yield opened(path)


def to_do(layers: Sequence[str] = (CORE, NET)) -> str | None:
    """What takes some seconds before it can be used, to be said first; None if it is there as it should be."""
    place = cache.path_of(layers)
    if not place.is_dir():
        return BUILDING
    return None if repair.is_intact(place) else REPAIRING


def distrust(bundle: Bundle) -> None:
    """Have all of a bundle checked at its next use: a process that was started from it did not run."""
    repair.distrust(bundle.path)


def opened(path: Path) -> Bundle:
    """The bundle in a folder. OSError and ValueError as they come if there is none."""
    head, digest = manifest.read(path)
    return Bundle(path, digest, head["machine"], head)


def command(bundle: Bundle, root: str) -> tuple[str, ...]:
    """What starts the supervisor where the bundle lies at `root`, without a shell; SPEC_FILE and options follow.

    Whoever uses it empties the variables of LOADER_VARIABLES that the image sets, see kedge.contract."""
    return (*stubs.command(root, bundle.head["interpreter"], bundle.head["loader"]), f"{root}/site/kedge/runtime")
