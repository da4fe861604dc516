"""Removing bundles that are no longer used."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from kedge.bundle import cache, prune
from kedge.bundle.prune import Kept

DAY = 86_400.0


@pytest.fixture
def bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a bundle of 10 bytes that was used now, and one that was used a week ago."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, days in (("new", 0), ("old", 7)):
        place = cache.folder() / name
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "python3").write_bytes(bytes(10))
        Path(f"{place}.lock").touch()
        os.utime(place, (time.time() - days * DAY,) * 2)
    return cache.folder()


def names(entries: list[Kept]) -> list[tuple[str, int]]:
    return [(entry.name, entry.size) for entry in entries]


def test_a_missing_cache_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert prune.entries() == prune.prune() == []


def test_bundles_unused_for_long_are_deleted(bundles: Path) -> None:
    assert names(prune.entries()) == [("new", 10), ("old", 10)]
    assert names(prune.prune(8 * DAY)) == []
    assert names(prune.prune(DAY)) == [("old", 10)]
    assert names(prune.entries()) == [("new", 10)]
    assert names(prune.prune()) == [("new", 10)]
    assert {path.suffix for path in bundles.iterdir()} == {".lock"}


def test_bundles_in_use_are_not_deleted(bundles: Path) -> None:
    with cache.locked(bundles / "old", fcntl.LOCK_SH), cache.locked(bundles / "old", fcntl.LOCK_SH):
        assert names(prune.prune()) == [("new", 10)]
    assert names(prune.prune()) == [("old", 10)]


def test_bundles_of_jobs_in_clusters_are_not_deleted(bundles: Path) -> None:
    assert names(prune.prune(used=lambda: {bundles / "old"})) == [("new", 10)]
    assert names(prune.prune()) == [("old", 10)]


def test_leftovers_of_a_dead_builder_are_deleted(bundles: Path) -> None:
    (bundles / ".old.abc").mkdir()
    assert names(prune.prune(8 * DAY)) == []
    assert not list(bundles.glob(".*"))


def test_a_bundle_is_held_although_it_was_just_deleted(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pruned bundle is built again and then held."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(bundles / "other"))
    with cache.held(("core",)) as place:
        assert (place / "bin").is_dir()
        assert prune.prune() == []
    assert names(prune.prune())[0][0] == place.name
    with cache.held(("core",)) as again:
        assert (again / "bin").is_dir()
