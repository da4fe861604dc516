"""The attempt's own copy of the code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest

from kedge import contract, file_copies
from kedge.runtime.setup import code_copy


def never():
    return False


@pytest.fixture
def snapshot(tmp_path):
    folder = tmp_path / "snapshot"
    (folder / "sub/deep").mkdir(parents=True)
    (folder / "main.sh").write_text("echo from main; cat sub/deep/data\n")
    (folder / "sub/deep/data").write_text("data\n")
    (folder / "up").symlink_to("sub/deep/../../main.sh")
    (folder / "out").symlink_to("/nowhere/at/all")
    return folder


def names(folder):
    return sorted(os.listdir(folder))


def test_the_command_starts_in_a_copy_that_it_can_change(attempt, snapshot):
    for path in (snapshot / "main.sh", snapshot):
        path.chmod(path.stat().st_mode & ~0o222)
    workdir = attempt.folder / "code/main"
    attempt.spec = attempt.spec._replace(code=str(snapshot), workdir=str(workdir))
    attempt.run("sh main.sh; echo changed > main.sh; touch new; pwd")
    assert attempt.stream("user-stdout").decode() == f"from main\ndata\n{workdir}\n"
    assert (workdir / "main.sh").read_text() == "changed\n"
    assert (snapshot / "main.sh").read_text() != "changed\n"
    assert names(workdir.parent) == ["main"]
    assert names(workdir) == ["main.sh", "new", "out", "sub", "up"]


def test_links_modes_times_and_holes_are_those_of_the_snapshot(snapshot, tmp_path):
    with open(snapshot / "sparse", "wb") as file:
        file.write(b"begin")
        file.truncate(1 << 24)
    (snapshot / "main.sh").chmod(0o550)
    (snapshot / "sub/deep/data").chmod(0o400)
    (snapshot / "sub").chmod(0o555)
    os.utime(snapshot / "main.sh", ns=(1, 1_000_000_007))
    os.utime(snapshot / "sub", ns=(1, 2_000_000_007))
    copied = code_copy.make(str(snapshot), str(tmp_path / "own"), never)
    assert copied is not None
    assert copied.files == 3
    own = tmp_path / "own"
    assert subprocess.run(["diff", "-r", "--no-dereference", snapshot, own], check=False).returncode == 0
    modes = {name: (own / name).stat().st_mode & 0o777 for name in ("main.sh", "sub/deep/data", "sub")}
    assert modes == {"main.sh": 0o750, "sub/deep/data": 0o600, "sub": 0o755}
    times = [(own / name).stat().st_mtime_ns for name in ("main.sh", "sub")]
    assert times == [1_000_000_007, 2_000_000_007]
    assert (own / "sparse").stat().st_blocks <= (snapshot / "sparse").stat().st_blocks


def test_what_is_no_file_is_left_out_and_does_not_block(snapshot, tmp_path):
    os.mkfifo(snapshot / "pipe")
    assert code_copy.make(str(snapshot), str(tmp_path / "own"), never)
    assert names(tmp_path / "own") == ["main.sh", "out", "sub", "up"]


def test_a_copy_of_an_earlier_start_is_replaced(snapshot, tmp_path):
    for stale in ("own", ".own.new"):
        (tmp_path / stale).mkdir()
        (tmp_path / stale / "stale").touch()
    assert code_copy.make(str(snapshot), str(tmp_path / "own"), never)
    assert names(tmp_path / "own") == names(snapshot)
    assert names(tmp_path) == ["own", "snapshot"]


def test_a_stop_ends_the_copy_and_leaves_nothing(snapshot, tmp_path, monkeypatch):
    monkeypatch.setattr(code_copy, "_LOOK_SEC", 0.0)
    looks = iter((False, False, True))
    assert code_copy.make(str(snapshot), str(tmp_path / "own"), lambda: next(looks)) is None
    assert names(tmp_path) == ["snapshot"]


def test_a_kill_in_the_middle_leaves_nothing_in_use(snapshot, tmp_path, monkeypatch):
    monkeypatch.setattr(code_copy, "_LOOK_SEC", 0.0)
    looks = iter((False, False, True))
    if (pid := os.fork()) == 0:
        code_copy.make(
            str(snapshot), str(tmp_path / "own"), lambda: next(looks) and os.kill(os.getpid(), signal.SIGKILL)
        )
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert names(tmp_path) == [".own.new", "snapshot"]
    assert code_copy.make(str(snapshot), str(tmp_path / "own"), never)
    assert names(tmp_path) == ["own", "snapshot"]


def test_a_full_disk_in_the_middle_fails_the_task(attempt, snapshot, small_disk):
    (snapshot / "sub/large").write_bytes(os.urandom(3 << 20))
    attempt.folder = small_disk / "task"
    workdir = attempt.folder / "code/main"
    attempt.spec = attempt.spec._replace(folder=str(attempt.folder), code=str(snapshot), workdir=str(workdir))
    assert attempt.run("echo never") == contract.RUNTIME_BROKE
    assert (attempt.report["reason"], attempt.report["user_exit_code"]) == (contract.DISK_FULL, None)
    assert attempt.report["message"].endswith("code/main/sub/large: No space left on device")
    assert attempt.report["diagnosis"]["cause"] == "disk_full"
    assert names(workdir.parent) == []


@pytest.fixture
def sharing_disk(tmp_path):
    """A file system that can share blocks."""
    program = next(filter(None, map(shutil.which, ("mkfs.btrfs", "mkfs.xfs"))), None)
    if program is None or os.geteuid() != 0:
        pytest.skip("a disk that shares blocks needs root and mkfs.btrfs or mkfs.xfs")
    image, path = tmp_path / "image", tmp_path / "sharing"
    with open(image, "wb") as file:
        file.truncate(400 << 20)
    subprocess.run([program, "-q", image], check=True)
    path.mkdir()
    mount = subprocess.run(["mount", "-o", "loop", image, path], capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip(f"it cannot be mounted here: {mount.stderr.strip()}")
    yield path
    subprocess.run(["umount", path], check=True)


def test_a_copy_shares_its_blocks_where_the_file_system_can(sharing_disk):
    assert file_copies.shares_blocks(sharing_disk)
    snapshot, size = sharing_disk / "snapshot", 20 << 20
    snapshot.mkdir()
    (snapshot / "large").write_bytes(os.urandom(size))
    before = free(sharing_disk)
    for number in range(10):
        assert code_copy.make(str(snapshot), str(sharing_disk / f"own-{number}"), never)
    assert before - free(sharing_disk) < size
    assert subprocess.run(["cmp", snapshot / "large", sharing_disk / "own-9/large"], check=False).returncode == 0


def free(folder):
    os.sync()
    found = os.statvfs(folder)
    return found.f_bfree * found.f_frsize


def test_other_file_systems_are_known(small_disk):
    assert not file_copies.shares_blocks(small_disk)


def test_a_snapshot_that_is_gone_is_named(attempt, tmp_path):
    gone = tmp_path / "gone"
    attempt.spec = attempt.spec._replace(code=str(gone), workdir=str(attempt.folder / "code/main"))
    attempt.run("echo never")
    assert attempt.report["reason"] == contract.CANNOT_START
    assert attempt.report["message"] == f"the code cannot be copied: {gone}: No such file or directory"
