"""Copies between a folder that tasks can write and one of the user."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.errors import InputError
from kedge.runs import transfer
from kedge.runs.inner_links import leads_inside
from kedge.runs.transfer import FileTransfer
from kedge.untrusted import FOLDER


def copy(source: Path, target: Path, name: str = "copy", *, shared: bool = False) -> FileTransfer:
    done = FileTransfer(shared=shared)
    fd, folder = os.open(source, os.O_RDONLY), os.open(target, FOLDER)
    try:
        done.entry(fd, folder, name, "source")
    finally:
        os.close(fd)
        os.close(folder)
    return done


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source" / "inner").mkdir(parents=True)
    (tmp_path / "source" / "inner" / "file").write_bytes(b"content")
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_a_tree_is_copied_with_modes_times_links_and_holes(source: Path, target: Path) -> None:
    with (source / "sparse").open("wb") as file:
        file.seek(1 << 32)
        file.write(b"end")
    (source / "inner" / "file").chmod(0o754)
    os.utime(source / "inner" / "file", ns=(1, 2))
    (source / "latest").symlink_to("inner")
    (source / "inner" / "up").symlink_to("../sparse")
    (source / os.fsdecode(b"odd\xff\n")).touch()
    done = copy(source, target)
    made = target / "copy"
    assert (done.files, done.notes, done.failures) == (3, [], [])
    assert (made / "inner" / "file").read_bytes() == b"content"
    info = (made / "inner" / "file").stat()
    assert (stat.S_IMODE(info.st_mode), info.st_mtime_ns) == (0o754 & ~_umask(), 2)
    assert (made / "latest").readlink() == Path("inner")
    assert (made / "inner" / "up").readlink() == Path("../sparse")
    assert (made / "sparse").stat().st_size == (1 << 32) + 3
    assert (made / "sparse").stat().st_blocks < 1000
    assert sorted(os.listdir(target)) == ["copy"]


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


def test_links_that_lead_out_and_special_files_are_skipped_with_a_note(source: Path, target: Path) -> None:
    (source / "absolute").symlink_to("/etc/passwd")
    (source / "above").symlink_to("../target")
    (source / "tricky").symlink_to("inner/../../target")
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "socket"))
    done = copy(source, target)
    assert sorted(os.listdir(target / "copy")) == ["inner"]
    assert len(done.notes) == 5
    assert "source/absolute is a link that leads out of the copied folder, to /etc/passwd: skipped" in done.notes
    assert "source/pipe is a named pipe: skipped" in done.notes


@pytest.mark.parametrize(
    ("link", "depth", "inside"),
    [
        ("file", 0, True), ("a/b", 0, True), ("./a", 0, True), ("../a", 1, True), ("..", 1, True), ("../..", 2, True),
        ("../a", 0, False), ("../../a", 1, False), ("a/..", 5, False), ("a/../b", 5, False), ("/a", 9, False),
        ("..a", 0, True), ("a/..b", 0, True), ("../../../..", 3, False),
        ("a//b", 0, True), (".", 0, True), ("./../a", 1, True), ("./../a", 0, False), (".//..", 0, False),
    ],
)  # fmt: skip
def test_links_that_surely_stay_inside(link: str, depth: int, inside: bool) -> None:
    assert leads_inside(link, depth) == inside


def test_an_existing_file_is_replaced_in_one_step_and_a_folder_is_completed(source: Path, target: Path) -> None:
    (target / "copy" / "inner").mkdir(parents=True)
    (target / "copy" / "inner" / "file").write_text("old")
    (target / "copy" / "other").write_text("stays")
    with (target / "copy" / "inner" / "file").open() as open_before:
        copy(source, target)
        assert open_before.read() == "old"
    assert (target / "copy" / "inner" / "file").read_text() == "content"
    assert (target / "copy" / "other").read_text() == "stays"


def test_links_in_the_target_are_not_followed(source: Path, target: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (target / "copy").symlink_to(outside)
    with pytest.raises(InputError, match="source is a folder, but its target copy is none"):
        copy(source, target)
    (target / "file").symlink_to(outside / "file")
    copy(source / "inner" / "file", target, "file")
    assert not (target / "file").is_symlink()
    assert os.listdir(outside) == ["inner"]
    assert os.listdir(outside / "inner") == []


def test_a_file_does_not_replace_a_folder_nor_the_reverse(source: Path, target: Path) -> None:
    (target / "copy").mkdir()
    with pytest.raises(InputError, match="source is not a folder, but its target copy is one"):
        copy(source / "inner" / "file", target)
    (target / "file").touch()
    with pytest.raises(InputError, match="is a folder, but its target file is none"):
        copy(source, target, "file")
    assert sorted(os.listdir(target)) == ["copy", "file"]


def test_a_full_disk_leaves_nothing(source: Path, target: Path) -> None:
    """The limit on the size of files stands for the full disk."""
    (source / "large").write_bytes(b"x" * 100_000)
    program = """
import os, resource, signal, sys
from tests.runs.test_transfer import copy
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
copy(Path(sys.argv[1]), Path(sys.argv[2]))"""
    done = subprocess.run(
        [sys.executable, "-c", program, source, target], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert f"[Errno {errno.EFBIG}]" in done.stderr
    assert os.listdir(target) == []


@pytest.mark.parametrize("unnamed", [True, False])
def test_an_interrupted_copy_leaves_no_half_file(
    source: Path, target: Path, unnamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE")

    def interrupted(*fds: int) -> None:
        os.write(fds[1], b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(transfer, "copy_content", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy(source / "inner" / "file", target)
    assert os.listdir(target) == []


def test_a_killed_process_leaves_no_part_of_a_file(source: Path, target: Path) -> None:
    program = """
import os, signal, sys
from tests.runs.test_transfer import copy
from kedge.runs import transfer
from pathlib import Path
transfer.copy_content = lambda source, target: os.kill(os.getpid(), signal.SIGKILL)
copy(Path(sys.argv[1]), Path(sys.argv[2]))"""
    done = subprocess.run(
        [sys.executable, "-c", program, source / "inner" / "file", target], check=False, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(target) == []


def test_a_file_that_grows_is_copied_once_and_named(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing, real = source / "inner" / "file", transfer.copy_content

    def copy_content(*fds: int) -> object:
        with growing.open("ab") as file:
            file.write(b", more")
        return real(*fds)

    monkeypatch.setattr(transfer, "copy_content", copy_content)
    done = copy(source, target)
    assert done.notes == ["source/inner/file was written to while it was copied"]
    assert (target / "copy" / "inner" / "file").read_bytes() == b"content, more"


def test_the_progress_ends_with_the_total_without_holes(source: Path, target: Path) -> None:
    (source / "large").write_bytes(b"x" * 100_000)
    with (source / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    steps: list[tuple[int, int]] = []
    done = FileTransfer(shared=False, progress=lambda done, total: steps.append((done, total)))
    fd, folder = os.open(source, os.O_RDONLY), os.open(target, FOLDER)
    done.entry(fd, folder, "copy", "source")
    os.close(fd)
    os.close(folder)
    assert steps[-1] == (100_007, 100_007)


def test_a_file_that_is_deleted_meanwhile_is_a_note(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = transfer.entries

    def entries(fd: int) -> list[tuple[str, os.stat_result]]:
        found = listed(fd)
        (source / "inner" / "file").unlink(missing_ok=True)
        return found

    (source / "other").touch()
    monkeypatch.setattr(transfer, "_size", lambda fd: 0)
    monkeypatch.setattr(transfer, "entries", lambda fd: listed(fd) if _is(fd, source) else entries(fd))
    done = copy(source, target)
    assert (done.notes, done.failures) == (["source/inner/file was deleted before it was copied"], [])
    assert done.files == 1


def _is(fd: int, folder: Path) -> bool:
    return os.path.samestat(os.fstat(fd), folder.stat())


def test_a_shared_copy_has_the_access_rights_of_its_folder(source: Path, target: Path) -> None:
    target.chmod(0o777)
    (source / "inner" / "file").chmod(0o600)
    source.chmod(0o700)
    copy(source, target, shared=True)
    assert stat.S_IMODE((target / "copy").stat().st_mode) == 0o777
    assert stat.S_IMODE((target / "copy" / "inner" / "file").stat().st_mode) == 0o666


def test_folders_nested_too_deeply_are_named(source: Path, target: Path) -> None:
    at = os.open(source, FOLDER)
    for _ in range(200):
        os.mkdir("d", dir_fd=at)
        at, before = os.open("d", FOLDER, dir_fd=at), at
        os.close(before)
    os.close(at)
    done = copy(source, target)
    assert [note.endswith("nested too deeply: its content is skipped") for note in done.notes] == [True]
    assert done.files == 1
