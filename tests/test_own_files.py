from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.own_files import clear


def test_what_is_behind_links_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "run" / "a").mkdir(parents=True)
    for place in ("run/link", "run/a/link"):
        (tmp_path / place).symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / "run" / "a" / "pipe")
    clear(tmp_path / "run")
    assert os.listdir(tmp_path) == ["precious"]
    (tmp_path / "link").symlink_to("precious")
    clear(tmp_path / "link")
    clear(tmp_path / "none")
    assert os.listdir(tmp_path) == ["precious"]
    assert (tmp_path / "precious" / "file").exists()


def test_folders_deeper_than_any_path(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=at)
        outer, at = at, os.open("deep", os.O_RDONLY, dir_fd=at)
        os.close(outer)
    os.close(at)
    clear(tmp_path / "deep")
    assert os.listdir(tmp_path) == []


def test_several_at_once(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / "run" / str(number) / "a" / "b").mkdir(parents=True)
        (tmp_path / "run" / str(number) / "a" / "file").touch()
    script = "import sys; from pathlib import Path; from kedge.own_files import clear; clear(Path(sys.argv[1]))"
    several = [subprocess.Popen([sys.executable, "-c", script, tmp_path / "run"]) for _ in range(3)]
    assert [process.wait() for process in several] == [0, 0, 0]
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may delete everything")
def test_what_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    (tmp_path / "run" / "a").mkdir(parents=True)
    (tmp_path / "run").chmod(0o500)
    with pytest.raises(PermissionError) as caught:
        clear(tmp_path / "run")
    (tmp_path / "run").chmod(0o700)
    assert caught.value.filename == f"{tmp_path}/run/a"
