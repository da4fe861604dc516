from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.engines.machine.gpu_locks import LockFolder, make_shared
from kedge.errors import CannotRun

TAKE = (
    "import os, sys; from pathlib import Path; from kedge.engines.machine.gpu_locks import LockFolder\n"
    "if len(sys.argv) > 2: os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
    "os.umask(0o077)\n"
    "with LockFolder(Path(sys.argv[1])) as folder: print(folder.lock('GPU-1') is not None, flush=True)\n"
    "sys.stdin.read()\n"
)


def take(path: Path) -> int | None:
    with LockFolder(path) as folder:
        return folder.lock("GPU-1")


def test_the_folder_is_for_everybody(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        fd = take(tmp_path / "locks")
    finally:
        os.umask(before)
    assert fd is not None
    assert (tmp_path / "locks").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "locks" / "GPU-1").stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["locks"]
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    with LockFolder(tmp_path / "locks") as folder:
        fd = folder.lock("../MIG-GPU-x/1/0")
    assert fd is not None
    assert sorted(os.listdir(tmp_path / "locks")) == [".made", "___MIG-GPU-x_1_0"]
    os.close(fd)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "locks").symlink_to("real")
    with pytest.raises(CannotRun, match="locks: cannot be used to share out GPUs: Not a directory"):
        LockFolder(tmp_path / "locks")


def test_a_folder_in_which_anybody_can_delete_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks").chmod(0o777)
    with pytest.raises(CannotRun, match="anybody can delete files in it; its mode must be 1777"):
        LockFolder(tmp_path / "locks")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotRun, match="locks: cannot be made to share out GPUs: Not a directory"):
        LockFolder(tmp_path / "file" / "locks")


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").touch()
    take_once = take(tmp_path / "locks")
    assert take_once is not None
    os.close(take_once)
    (tmp_path / "locks" / "GPU-1").unlink()
    (tmp_path / "locks" / "GPU-1").symlink_to(tmp_path / "victim")
    with pytest.raises(CannotRun, match="GPU-1 is a link; remove it"):
        take(tmp_path / "locks")


def test_a_pipe_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    os.mkfifo(tmp_path / "locks" / "GPU-1")
    with pytest.raises(CannotRun, match="GPU-1 is not a plain file; remove it"):
        take(tmp_path / "locks")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")
def test_users_share_the_locks_of_each_other() -> None:
    setting = Path("/proc/sys/fs/protected_regular")  # the whole machine's, so no two tests may change it
    before = setting.read_text()
    path = Path(f"/tmp/kedge-test-locks-{os.getpid()}")
    try:
        for protected in ("0", "2"):
            setting.write_text(protected)
            _share(path)
            shutil.rmtree(path)
    finally:
        setting.write_text(before)
        shutil.rmtree(path, ignore_errors=True)


def _share(path: Path) -> None:
    """Three users, one after the other; the first makes the folder and the lock."""
    holder = subprocess.Popen(
        [sys.executable, "-c", TAKE, path, "1001"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    assert holder.stdout.readline() == "True\n"
    assert path.stat().st_uid == 1001
    assert _asked(path, "1002") == "False\n"
    assert _asked(path) == "False\n"
    holder.communicate()
    assert _asked(path, "1002") == "True\n"
    assert _asked(path) == "True\n"


def _asked(path: Path, *user: str) -> str:
    command = [sys.executable, "-c", TAKE, path, *user]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


def test_a_lock_file_of_a_user_who_keeps_it_closed_counts_as_taken(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("root may open every file")
    first = take(tmp_path / "locks")
    assert first is not None
    os.close(first)
    (tmp_path / "locks" / "GPU-1").chmod(0)
    assert take(tmp_path / "locks") is None


def test_a_folder_that_somebody_else_has_just_made_is_not_replaced(tmp_path: Path) -> None:
    make_shared(tmp_path / "locks")
    first = (tmp_path / "locks").stat().st_ino
    make_shared(tmp_path / "locks")
    assert (tmp_path / "locks").stat().st_ino == first
    assert list(tmp_path.iterdir()) == [tmp_path / "locks"]
