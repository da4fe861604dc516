"""Looks up the current commits and digests on git servers and registries, several at once."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from kedge.resolve.lock_file import Pin, Repository
from kedge.resolve.sources import git, registry

_THREADS = 8


def commits(wanted: Iterable[Repository]) -> dict[str, Pin]:
    """The commit of every repository's ref, by `Repository.key`."""
    keys = {repository.key: repository for repository in wanted}
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(keys, pool.map(git.commit, keys.values()), strict=True))


def digests(images: Iterable[str]) -> dict[str, Pin]:
    """The digest of every image's tag, by the image's name."""
    names = sorted(set(images))
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(names, pool.map(registry.digest, names), strict=True))
