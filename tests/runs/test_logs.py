"""Reading logs from folders that tasks can write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.contract import CURRENT, RUNTIME_LOG, USER_ALL
from kedge.runs import logs
from kedge.runs.logs import CHUNK, LONGEST_LINE, LineCutter, StreamReader, tail


def whole(folder: Path, stream: str) -> bytes:
    with StreamReader(folder, stream) as reader:
        return b"".join(iter(reader.read, b""))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task's folder, next to another task's folder with its own log."""
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
    assert whole(folder, USER_ALL) == b"one two"
    assert tail(folder, f"{USER_ALL}/{CURRENT}", 2) == b"wo"


def test_a_link_in_place_of_a_log_or_its_folder_is_not_followed(folder: Path) -> None:
    (folder / USER_ALL).symlink_to("../other")
    (folder / RUNTIME_LOG).symlink_to("../other/current")
    for name in (USER_ALL, RUNTIME_LOG):
        assert whole(folder, name) == b""
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


_TEXTS = st.sampled_from([b"a", b"a" * 60_000, "ä".encode() * 40_000, b"50%\r" * 20_000, b"\x1b[31m" * 20_000, b"\n"])


@given(pieces=st.lists(_TEXTS, max_size=30), size=st.integers(1, CHUNK))
def test_no_byte_is_lost_and_lines_are_bounded(pieces: list[bytes], size: int) -> None:
    data, lines = b"".join(pieces), LineCutter()
    size = max(size, len(data) // 50)
    found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
    found += filter(None, [lines.rest()])
    assert b"".join(found) == data
    assert all(len(piece) <= LONGEST_LINE + max(size, CHUNK) for piece in found)
    assert all(b"\n" not in piece for piece in found if not piece.endswith(b"\n"))
    whole_lines = [line for line in data.split(b"\n")[:-1] if len(line) <= LONGEST_LINE]
    pieces_of_lines = {line for piece in found for line in piece.split(b"\n")}
    assert pieces_of_lines.issuperset(whole_lines)


@pytest.mark.parametrize("one", ["ä".encode(), b"\x1b[31m", "€".encode(), b"50%\r"])
def test_a_long_line_is_cut_between_characters_colours_and_progress_bar_states(one: bytes) -> None:
    lines, found = LineCutter(), []
    data = b"x" + one * (3 * LONGEST_LINE // len(one))
    for at in range(0, len(data), 1000):
        found += lines.feed(data[at : at + 1000])
    assert len(found) > 1
    assert {(len(piece) - 1) % len(one) for piece in found[:1]} == {0}
    assert all(len(piece) % len(one) == 0 and piece.startswith(one) for piece in found[1:])


def test_an_index_that_was_renamed_before_its_file_is_found(tmp_path, monkeypatch):
    (tmp_path / "user-all").mkdir()
    (tmp_path / "log-times" / "user-all").mkdir(parents=True)
    log = tmp_path / "user-all" / "current"
    log.write_text("line\n")
    (tmp_path / "log-times" / "user-all" / "@1.s").write_text("its times")
    inode, looks = log.stat().st_ino, []

    def later(seconds):
        looks.append(seconds)
        if len(looks) == 20:  # the task's supervisor goes on
            log.rename(log.with_name("@1.s"))

    monkeypatch.setattr(logs.time, "sleep", later)
    fd = logs.open_index(tmp_path, "user-all", inode)
    assert os.read(fd, 100) == b"its times"
    os.close(fd)
    assert len(looks) == 20


def test_a_file_without_an_index_is_not_waited_for(tmp_path, monkeypatch):
    (tmp_path / "user-all").mkdir()
    (tmp_path / "log-times" / "user-all").mkdir(parents=True)
    (tmp_path / "user-all" / "current").write_text("line\n")
    monkeypatch.delattr(logs.time, "sleep")
    inode = (tmp_path / "user-all" / "current").stat().st_ino
    assert logs.open_index(tmp_path, "user-all", inode) is None


def test_a_file_that_is_rotated_while_its_folder_is_listed_is_found(tmp_path, monkeypatch):
    (tmp_path / "user-all").mkdir()
    log = tmp_path / "user-all" / "current"
    log.write_text("line\n")
    inode, real = log.stat().st_ino, os.listdir

    def rotated(folder):
        names = real(folder)
        if names == ["current"]:
            log.rename(log.with_name("@1.s"))
            log.touch()
        return names

    monkeypatch.setattr(logs.os, "listdir", rotated)
    fd = logs.open_file(tmp_path, "user-all", inode)
    assert os.read(fd, 100) == b"line\n"
    os.close(fd)


def test_a_file_that_came_and_was_rotated_while_its_folder_was_listed_is_not_left_out(tmp_path, monkeypatch):
    (tmp_path / "user-all").mkdir()
    log = tmp_path / "user-all" / "current"
    log.with_name("@1.s").write_text("1\n")
    log.write_text("2\n")
    real = os.lstat

    def rotated(name, **options):
        if name == "current" and not log.with_name("@2.s").exists():
            log.rename(log.with_name("@2.s"))
            log.write_text("3\n")
        return real(name, **options)

    with logs.StreamReader(tmp_path, "user-all") as reader:
        assert reader.read() == b"1\n"
        monkeypatch.setattr(logs.os, "lstat", rotated)
        assert [reader.read(), reader.read(), reader.read()] == [b"2\n", b"3\n", b""]
