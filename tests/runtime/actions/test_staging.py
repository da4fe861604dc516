"""Folders in which targets are built, where files cannot be locked."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile

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


def test_a_folder_that_another_process_sweeps_is_left_to_it(tmp_path, monkeypatch):
    """Who sweeps may have locked a folder in the moment in which it was made, and may hang."""
    sweepers = []

    def mkdtemp(**place):
        folder = make(**place)
        if not sweepers:
            sweepers.append(os.open(folder, os.O_RDONLY))
            fcntl.flock(sweepers[0], fcntl.LOCK_EX)
        return folder

    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with staging.beside(str(tmp_path / "target")) as folder:
        assert not os.path.samestat(os.stat(folder), os.fstat(sweepers[0]))
    os.close(sweepers[0])
