from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.diagnose.rules.test_rules import GOOD

from kedge import packed_runtime
from kedge.bundle import repair
from kedge.diagnose.rules import rule_files
from kedge.errors import DiskFull
from kedge.own_files import clear, replace_file
from kedge.resolve import lock_file
from kedge.resolve.document_cache import DocumentCache
from kedge.resolve.lock_file import Lock
from kedge.runs.atomic_files import write_atomic
from kedge.runtime.files import write_synced


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


def store_rules(folder: Path) -> None:
    (folder.parent / "rules.toml").write_text(GOOD)
    assert "license-server" in [rule.name for rule in rule_files.load([folder.parent / "rules.toml"]).rules()]


# Everything that writes a file in one step, and whether it needs to succeed.
WRITERS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "packed runtime": (lambda folder: packed_runtime.start_file(os.environ), False),
    "rules": (store_rules, False),
    "document": (lambda folder: DocumentCache(folder / "items").put(bytes(1 << 16)), False),
    "stamp": (lambda folder: repair.stamp(folder / "bundle"), False),
    "lock file": (lambda folder: lock_file.save(str(folder / "job.lock"), Lock()), True),
    "run file": (lambda folder: write_atomic(folder / "run.json", b"{}"), True),
    "report": (lambda folder: write_synced(str(folder / "report.json"), b"{}"), True),
}


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_no_part_of_a_file(name: str, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_disk))
    write, needed = WRITERS[name]
    write(small_disk)
    (written,) = files(small_disk)
    size = written.stat().st_size
    written.unlink()
    filler = small_disk / "filler"
    with suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    fails(write, small_disk, needed)
    assert files(small_disk) == [filler]
    filler.unlink()
    write(small_disk)
    assert files(small_disk) == [written]
    assert written.stat().st_size == size


@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_disk_is_one_plain_error(name: str, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_disk))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    write, needed = WRITERS[name]
    fails(write, small_disk, needed)
    assert files(small_disk) == []


def fails(write: Callable[[Path], object], folder: Path, needed: bool) -> None:
    """It fails, or what only saves time goes without it."""
    if needed:
        with pytest.raises((OSError, DiskFull)):
            write(folder)
    else:
        write(folder)


def test_many_writers_of_one_file_do_no_harm(tmp_path: Path) -> None:
    """Each file that a reader sees is one writer's."""
    script = (
        "import sys; from kedge.own_files import replace_file\n"
        "for _ in range(100): replace_file(sys.argv[1], sys.argv[2].encode() * (1 << 18), synced=False)"
    )
    file = tmp_path / "file"
    replace_file(file, b"-")
    several = [subprocess.Popen([sys.executable, "-c", script, file, letter]) for letter in "abc"]
    while any(process.poll() is None for process in several):
        assert len(set(file.read_bytes())) == 1
        assert file.stat().st_size in (1, 1 << 18)
    assert [process.wait() for process in several] == [0, 0, 0]
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "job.lock" / "precious").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        lock_file.save(str(tmp_path / "job.lock"), Lock())
    assert os.listdir(tmp_path) == ["job.lock"]
    assert os.listdir(tmp_path / "job.lock") == ["precious"]


def test_a_file_of_the_user_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    lock_file.save(str(tmp_path / "job.lock"), Lock())
    assert (tmp_path / "job.lock").stat().st_mode == (tmp_path / "usual").stat().st_mode
