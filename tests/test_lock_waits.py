"""Locks that are waited for with words and a deadline."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge import lock_waits
from kedge.lock_waits import StillLocked

ME = f"pid {os.getpid()} on {os.uname().nodename}"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Two descriptors of a file, the first of which holds its lock."""
    path = tmp_path / "lock"
    flags = os.O_RDWR | os.O_CREAT
    fds = os.open(path, flags), os.open(path, flags)
    lock_waits.lock(fds[0], fcntl.LOCK_EX, 1.0, print)
    yield fds
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("kind", [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_who_waits_too_long_learns_for_whom(held: tuple[int, int], kind: int) -> None:
    said: list[str] = []
    with pytest.raises(StillLocked, match=ME):
        lock_waits.lock(held[1], kind, 0.1, said.append, quiet_sec=0.05)
    assert said == [ME]


def test_a_lock_that_is_released_is_taken(held: tuple[int, int]) -> None:
    lock_waits.lock(held[1], fcntl.LOCK_EX, 60.0, lambda _: fcntl.flock(held[0], fcntl.LOCK_UN), quiet_sec=0.0)
    assert lock_waits.holder(held[0]) == ME


def test_a_holder_that_goes_on_is_waited_for(held: tuple[int, int]) -> None:
    """It is at work for longer than the others' patience."""
    looks: list[int] = []

    def progress() -> int:
        looks.append(len(looks))
        if len(looks) == 10:
            fcntl.flock(held[0], fcntl.LOCK_UN)
        return looks[-1]

    lock_waits.lock(held[1], fcntl.LOCK_EX, 1e-9, print, progress=progress)
    assert len(looks) == 10


@pytest.mark.parametrize("text", [b"", b"rm -rf /\x1b[2J on x", b"pid 1"])
def test_what_others_have_written_is_not_trusted(held: tuple[int, int], text: bytes) -> None:
    os.ftruncate(held[0], 0)
    os.pwrite(held[0], text, 0)
    assert lock_waits.holder(held[1]) == "another process"
