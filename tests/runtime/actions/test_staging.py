"""Folders in which targets are built, where files cannot be locked."""

from __future__ import annotations

import errno
import fcntl
import os

from kedge.runtime.actions import staging


def test_without_locks_a_folder_is_used_and_nobody_sweeps_it(tmp_path, monkeypatch):
    def flock(fd: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    target = str(tmp_path / "target")
    with staging.beside(target) as first, staging.beside(target) as second:
        assert first != second
        assert os.path.isdir(first)
    assert os.listdir(tmp_path) == []
