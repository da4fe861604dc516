from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kedge.errors import DiskFull
from kedge.runs.atomic_files import disk_errors, write_atomic, write_json


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"id": "a"})
    write_json(path, {"id": "b"})
    assert json.loads(path.read_text()) == {"id": "b"}
    assert os.listdir(tmp_path) == ["run.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_reader_of_the_old_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_atomic(path, b"old")
    with path.open("rb") as reader:
        write_atomic(path, b"new and longer")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new and longer"


def test_a_stale_temporary_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".f.new").write_bytes(b"left by a crash, and longer")
    write_atomic(tmp_path / "f", b"x")
    assert (tmp_path / "f").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["f"]


def test_a_full_disk_leaves_the_old_content(small_disk: Path) -> None:
    path = small_disk / "f"
    write_atomic(path, b"old")
    with pytest.raises(DiskFull, match=r"/f: cannot be written: the file system is full"):
        write_atomic(path, bytes(4 << 20))
    assert path.read_bytes() == b"old"
    assert os.listdir(small_disk) == ["f"]


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_errors("x"):
        (tmp_path / "none").read_bytes()


def test_a_link_in_place_of_the_temporary_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("precious")
    (tmp_path / ".file.new").symlink_to("other")
    write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "other").read_text() == "precious"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()
