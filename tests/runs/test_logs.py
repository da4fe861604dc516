"""Logs of tasks, from folders in which the tasks may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.contract import CURRENT, RUNTIME_LOG, USER_ALL
from kedge.runs.logs import StreamReader, tail, whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task's folder beside another one with a log of its own."""
    other = tmp_path / "other"
    other.mkdir()
    (other / CURRENT).write_bytes(b"precious")
    task = tmp_path / "task"
    task.mkdir()
    return task


def test_a_stream_is_read_across_rotation(folder: Path) -> None:
    stream = folder / USER_ALL
    stream.mkdir()
    (stream / CURRENT).write_bytes(b"one ")
    with StreamReader(folder, USER_ALL) as reader:
        assert reader.read() == b"one "
        (stream / CURRENT).rename(stream / "@1.s")
        (stream / CURRENT).write_bytes(b"two")
        assert reader.read() == b"two"
    assert b"".join(whole(folder, USER_ALL)) == b"one two"
    assert tail(folder, f"{USER_ALL}/{CURRENT}", 2) == b"wo"


def test_a_link_in_place_of_a_log_or_its_folder_is_not_followed(folder: Path) -> None:
    (folder / USER_ALL).symlink_to("../other")
    (folder / RUNTIME_LOG).symlink_to("../other/current")
    for name in (USER_ALL, RUNTIME_LOG):
        assert b"".join(whole(folder, name)) == b""
    assert tail(folder, f"{USER_ALL}/{CURRENT}", 100) == b""


def test_a_link_that_takes_the_place_of_a_folder_ends_its_stream(folder: Path) -> None:
    stream = folder / USER_ALL
    stream.mkdir()
    (stream / CURRENT).write_bytes(b"mine")
    with StreamReader(folder, USER_ALL) as reader:
        assert reader.read() == b"mine"
        stream.rename(folder / "moved")
        stream.symlink_to("../other")
        assert reader.read() == b""
