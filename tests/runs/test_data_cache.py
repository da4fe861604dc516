from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.runs import data_cache
from kedge.runs.data_cache import DataCache

DATA = os.urandom(3_000_000)
SUM = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task's folder with the file that it claims to have fetched."""
    folder = tmp_path / "task"
    (folder / "pai/fetched").mkdir(parents=True)
    (folder / "pai/fetched" / SUM).write_bytes(DATA)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> DataCache:
    (tmp_path / "cache/data").mkdir(parents=True)
    return DataCache(tmp_path / "cache/data")


def take(cache: DataCache, task: Path, give_up: bool = False) -> bool:
    return cache.take(str(task), f"pai/fetched/{SUM}", SUM, lambda: give_up)


def test_a_fetched_file_is_moved_into_the_cache(cache: DataCache, task: Path) -> None:
    assert take(cache, task)
    assert (cache.path / SUM).read_bytes() == DATA
    assert (cache.path / SUM).stat().st_mode & 0o777 == 0o444
    assert not (task / "pai/fetched" / SUM).exists()
    assert not take(cache, task)
    assert [path.name for path in cache.path.iterdir()] == [SUM]


def test_a_task_cannot_change_a_cached_file(cache: DataCache, task: Path) -> None:
    with (task / "pai/fetched" / SUM).open("r+b") as kept_open:
        assert take(cache, task)
        kept_open.write(b"changed")
    assert (cache.path / SUM).read_bytes() == DATA


def test_a_file_that_grows_during_the_copy_is_copied_up_to_its_first_size(cache: DataCache, task: Path) -> None:
    asked = 0

    def grow() -> bool:
        nonlocal asked
        asked += 1
        assert asked < 100
        with (task / "pai/fetched" / SUM).open("ab") as file:
            file.write(DATA)
        return False

    assert cache.take(str(task), f"pai/fetched/{SUM}", SUM, grow)
    assert (cache.path / SUM).read_bytes() == DATA


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.rename(path.with_name("there"))
    path.symlink_to("there")


def _linked_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("there"))
    path.parent.symlink_to("there")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _huge(path: Path) -> None:
    os.truncate(path, 1 << 42)


def _other(path: Path) -> None:
    path.write_bytes(DATA + b"x")


@pytest.mark.parametrize("harm", [_fifo, _link, _linked_folder, _folder, _huge, _other, Path.unlink])
def test_anything_but_the_right_file_is_rejected(cache: DataCache, task: Path, harm: Callable[[Path], None]) -> None:
    harm(task / "pai/fetched" / SUM)
    assert not take(cache, task)
    assert list(cache.path.iterdir()) == []


def test_a_stop_ends_the_copy(cache: DataCache, task: Path) -> None:
    assert not take(cache, task, give_up=True)
    assert list(cache.path.iterdir()) == []
    assert (task / "pai/fetched" / SUM).exists()


@pytest.mark.parametrize("harm", [_fifo, _folder, _other])
def test_a_damaged_entry_is_replaced(cache: DataCache, task: Path, harm: Callable[[Path], None]) -> None:
    (cache.path / SUM).write_bytes(b"")
    harm(cache.path / SUM)
    assert take(cache, task)
    assert (cache.path / SUM).read_bytes() == DATA


def test_prune_keeps_recently_used_files(cache: DataCache) -> None:
    partial = Path(f"{cache.path}-partial")
    partial.mkdir()
    for name, seconds in (("a" * 64, 0), ("b" * 64, 1), ("c" * 64, 2)):
        (cache.path / name).write_bytes(DATA[: seconds + 1])
        (partial / f"{name}.lock").touch()
        (partial / f"{name}.partial").write_bytes(b"half")
        for path in (cache.path / name, partial / f"{name}.partial"):
            os.utime(path, (seconds, seconds))
    cache.touch("a" * 64)
    _fifo(cache.path / ("b" * 64))
    os.utime(cache.path / ("b" * 64), (0, 0))
    assert [(entry.sha256[0], entry.size) for entry in cache.entries()] == [("a", 1), ("c", 3), ("b", 0)]
    with (partial / f"{'c' * 64}.lock").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert [entry.sha256[0] for entry in cache.prune(unused_sec=3600)] == ["c", "b"]
    assert sorted(path.name[0] for path in partial.glob("*.partial")) == ["c"]
    cache.prune()
    assert cache.entries() == list(partial.glob("*.partial")) == []


def test_is_sum() -> None:
    assert data_cache.is_sum(SUM)
    for text in (None, "", SUM[1:], SUM.upper(), f"../{SUM}", f"{SUM}\n", {"text": []}):
        assert not data_cache.is_sum(text)
