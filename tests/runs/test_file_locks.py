"""File systems without locks, and locks that somebody keeps."""

from __future__ import annotations

import errno
import fcntl
import signal
from pathlib import Path

import pytest

from kedge.errors import CannotRun
from kedge.runs import controller_lock, events, file_locks
from kedge.runs.events import EventLog


def broken(number: int):
    """flock of a file system that answers with this error."""

    def flock(fd: int, kind: int) -> None:
        raise OSError(number, "")

    return flock


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(fcntl, "flock", broken(number))
    path = tmp_path / "lock"
    path.touch()
    for use in (EventLog, events.is_written, controller_lock.hold, controller_lock.is_held):
        with pytest.raises(CannotRun) as raised:
            use(path)
        assert str(tmp_path) in str(raised.value)
        assert "set XDG_STATE_HOME" in str(raised.value)
    assert file_locks.why_not(tmp_path, 20)
    with EventLog(path, locked=False) as log:
        log.append("x")


def test_locks_that_work(tmp_path: Path) -> None:
    assert file_locks.why_not(tmp_path, 20) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda fd, kind: signal.pause())
    assert file_locks.why_not(tmp_path, 0.1) == "nothing has answered for 0.1 s"


def test_a_lock_that_somebody_keeps(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path), pytest.raises(CannotRun, match=r"events.jsonl is locked by another process"):
        EventLog(path, 0.05)
    EventLog(path, 0.05).close()
