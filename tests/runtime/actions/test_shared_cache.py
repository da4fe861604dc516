"""The data cache on a file system that nodes share: who holds a lock may hang on another one, or there are no locks."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge import lock_waits
from kedge.runs.data_cache import DataCache
from kedge.runtime.actions import data_cache
from kedge.runtime.actions.base import ActionFailed, ActionJob
from kedge.runtime.actions.data_cache import CacheFolders

DATA = b"data"
SUM = hashlib.sha256(DATA).hexdigest()
JOB = ActionJob(1, "/none", (), 1)


@pytest.fixture
def folders(tmp_path: Path) -> CacheFolders:
    made = CacheFolders(*(str(tmp_path / name) for name in ("data", "data-partial", "data")))
    for path in {*made}:
        os.mkdir(path)
    return made


@pytest.fixture
def hanging(folders: CacheFolders, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The unfinished file of a task that does nothing any more."""
    monkeypatch.setattr(data_cache, "STILL_SEC", 0.2)
    partial = Path(folders.partial, f"{SUM}.partial")
    partial.write_bytes(DATA[:1])
    with open(f"{folders.partial}/{SUM}.lock", "w+b") as lock:
        lock_waits.lock(lock.fileno(), fcntl.LOCK_EX, 1.0, print)
        yield partial


def fetch(path: str) -> None:
    Path(path).write_bytes(DATA)


def fail(path: str) -> None:
    fetch(path)
    raise ActionFailed("cut", "network_unreachable", transient=True)


def test_a_task_that_hangs_holds_no_other_up(
    hanging: Path, folders: CacheFolders, capfd: pytest.CaptureFixture[str]
) -> None:
    with data_cache.entry(folders, SUM, fetch, JOB) as path:
        assert Path(path).read_bytes() == DATA
    log = capfd.readouterr().out
    assert f"in use by another task (pid {os.getpid()} on {os.uname().nodename}); waiting for it" in log
    assert "has not grown for 0.2 s" in log
    assert hanging.read_bytes() == DATA[:1]
    assert sorted(os.listdir(folders.partial)) == [f"{SUM}.lock", f"{SUM}.partial"]


def test_an_own_copy_that_fails_is_removed(hanging: Path, folders: CacheFolders) -> None:
    with pytest.raises(ActionFailed), data_cache.entry(folders, SUM, fail, JOB):
        pass
    assert sorted(os.listdir(folders.partial)) == [f"{SUM}.lock", f"{SUM}.partial"]


def test_without_locks_each_task_fetches_its_own(
    folders: CacheFolders, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def flock(fd: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with data_cache.entry(folders, SUM, fetch, JOB) as path:
        assert Path(path).read_bytes() == DATA
    assert "cannot be locked (No locks available)" in capfd.readouterr().out
    assert sorted(os.listdir(folders.files)) == [SUM]


def test_copies_of_killed_tasks_are_pruned(folders: CacheFolders) -> None:
    left = Path(folders.partial, f"{SUM}.own-x")
    left.mkdir()
    (left / "file").write_bytes(DATA)
    DataCache(Path(folders.files)).prune()
    assert left.exists(), "it may be in use"
    os.utime(left, (0, 0))
    DataCache(Path(folders.files)).prune()
    assert not left.exists()
