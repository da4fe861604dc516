"""Removing bundles that are no longer used."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from kedge import lock_waits
from kedge.bundle import cache, prune, uses
from kedge.bundle.prune import Kept
from kedge.errors import CannotRun

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


def test_bundles_of_runs_that_have_noted_their_use_are_not_deleted(bundles: Path, tmp_path: Path) -> None:
    runs = [tmp_path / "state" / name for name in ("ends", "removed")]
    for run in runs:
        run.mkdir(parents=True)
        uses.note(bundles / "old", run)
    assert names(prune.prune(DAY)) == []
    runs[1].rmdir()
    assert names(prune.prune(DAY, has_ended=lambda run: False)) == []
    assert names(prune.prune(DAY, has_ended=lambda run: run == runs[0])) == [("old", 10)]
    assert not list(bundles.glob("old.uses"))


def test_a_run_whose_folder_only_other_machines_see_is_not_over(bundles: Path, tmp_path: Path) -> None:
    uses.note(bundles / "old", tmp_path / "elsewhere" / "jobs" / "run")
    assert names(prune.prune(has_ended=lambda run: True)) == [("new", 10)]
    (tmp_path / "elsewhere" / "jobs").mkdir(parents=True)
    assert names(prune.prune()) == [("old", 10)]


def test_who_waits_for_a_bundle_learns_for_whom(
    bundles: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    me = f"pid {os.getpid()} on {os.uname().nodename}"
    monkeypatch.setattr(cache, "_PATIENCE_SEC", 0.1)
    monkeypatch.setattr(lock_waits.lock, "__kwdefaults__", lock_waits.lock.__kwdefaults__ | {"quiet_sec": 0.0})
    with cache.locked(bundles / "new"):
        for kind in (fcntl.LOCK_EX, fcntl.LOCK_SH):
            with pytest.raises(CannotRun, match=f"in the hands of {me} for 0.1 s"), cache.locked(bundles / "new", kind):
                pass
    assert f"note: the runtime's bundle is in the hands of {me}; waiting for it" in capsys.readouterr().err


def test_leftovers_of_a_dead_builder_are_deleted(bundles: Path) -> None:
    (bundles / ".old.abc").mkdir()
    assert names(prune.prune(8 * DAY)) == []
    assert not list(bundles.glob(".*"))


def test_a_bundle_is_held_although_it_was_just_deleted(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pruned bundle is built again and then held."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(bundles / "other"))
    built: list[str] = []
    with cache.held(("core",), lambda: built.append("first")) as place:
        assert (place / "bin").is_dir()
        assert prune.prune() == []
    with cache.held(("core",), lambda: built.append("never")):
        assert built == ["first"]
    assert names(prune.prune())[0][0] == place.name
    with cache.held(("core",), lambda: built.append("again")) as again:
        assert (again / "bin").is_dir()
    assert built == ["first", "again"]
