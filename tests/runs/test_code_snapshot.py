from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.errors import DiskFull, InputError
from kedge.runs.code_snapshot import Copied, copy
from kedge.testing.wait import wait_until


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "code"
    path.mkdir()
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "digits-abcdef" / "code" / "main"


def write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_copies_a_folder(code: Path, target: Path) -> None:
    write(code / "train.py", b"print(1)\n")
    write(code / "pkg" / "deep" / "data.bin", os.urandom(100_000))
    (code / "empty").mkdir()
    assert copy(code, target) == Copied(2, 100_009)
    assert subprocess.run(["diff", "-r", code, target], check=False).returncode == 0
    assert os.listdir(target.parent) == ["main"]


def test_copies_a_single_file(code: Path, target: Path) -> None:
    assert copy(write(code / "train.py", b"print(1)\n"), target) == Copied(1, 9)
    assert (target / "train.py").read_bytes() == b"print(1)\n"
    assert os.listdir(target) == ["train.py"]


def test_an_empty_folder(code: Path, target: Path) -> None:
    assert copy(code, target) == Copied(0, 0)
    assert target.is_dir()


def test_keeps_times_and_what_owner_and_others_may_read(code: Path, target: Path) -> None:
    for mode in (0o755, 0o640, 0o400, 0o4755):
        write(code / f"{mode:o}").chmod(mode)
    folder = code / "folder"
    write(folder / "f")
    os.utime(folder / "f", ns=(1, 1_000_000_007))
    os.utime(folder, ns=(1, 2_000_000_007))
    folder.chmod(0o555)
    copy(code, target)
    modes = [(target / name).stat().st_mode & 0o7777 for name in ("755", "640", "400", "4755")]
    assert modes == [0o555, 0o440, 0o400, 0o555]  # read-only, and a copy of a set-user-id program is not one
    assert (target / "folder").stat().st_mode & 0o777 == 0o555
    assert target.stat().st_mode & 0o222 == 0
    assert (target / "folder").stat().st_mtime_ns == 2_000_000_007
    assert (target / "folder" / "f").stat().st_mtime_ns == 1_000_000_007


def test_skips_what_is_ignored(code: Path, target: Path) -> None:
    write(code / ".gitignore", b"*.ckpt\n")
    write(code / ".git" / "config")
    write(code / "sub" / ".kedgeignore", b"!best.ckpt\n")
    for name in ("a.ckpt", "sub/b.ckpt", "sub/best.ckpt", "sub/train.py"):
        write(code / name)
    copy(code, target)
    assert sorted(os.listdir(target)) == [".gitignore", "sub"]
    assert sorted(os.listdir(target / "sub")) == [".kedgeignore", "best.ckpt", "train.py"]


def test_links_lead_into_the_copy_or_to_the_same_place_outside(code: Path, target: Path, tmp_path: Path) -> None:
    write(tmp_path / "data" / "set")
    write(code / "v1" / "f", b"copied")
    links = {
        "inside": "v1/f",
        "v1/up": "../v1/f",
        "absolute": str(code / "v1" / "f"),
        "outside": "../data/set",
        "elsewhere": "/usr/bin",
        "dangling": "nothing",
    }
    for name, text in links.items():
        (code / name).symlink_to(text)
    copied = copy(code, target)
    assert copied.outside == ("elsewhere", "outside")
    assert copied.files == 1
    (code / "v1" / "f").write_bytes(b"changed")
    for name in ("inside", "v1/up", "absolute"):
        assert (target / name).read_bytes() == b"copied", name
    assert os.readlink(target / "inside") == "v1/f"
    assert os.readlink(target / "dangling") == "nothing"
    assert (target / "outside").samefile(tmp_path / "data" / "set")
    assert (target / "elsewhere").is_symlink()


def test_skips_what_is_not_a_file(code: Path, target: Path) -> None:
    os.mkfifo(code / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(code / "socket"))
    write(code / "f")
    assert copy(code, target).files == 1
    assert os.listdir(target) == ["f"]


def test_too_large_a_folder_names_its_largest_entries(code: Path, target: Path) -> None:
    write(code / "data" / "deep" / "big", bytes(3 << 20))
    write(code / "model.bin", bytes(1 << 20))
    write(code / "train.py")
    with pytest.raises(InputError) as caught:
        copy(code, target, limit=2 << 20)
    assert str(caught.value) == (
        f"{code}: 4.0 MiB is too much to copy for a job (the limit is 2.0 MiB). The largest entries are: "
        f"data (3.0 MiB), model.bin (1.0 MiB). List what the job does not need in {code}/.kedgeignore, "
        "one pattern per line, as in .gitignore"
    )
    assert not target.parent.exists()
    write(code / ".kedgeignore", b"/data\n")
    assert copy(code, target, limit=2 << 20).files == 3


def test_a_single_file_that_is_too_large(code: Path, target: Path) -> None:
    with pytest.raises(InputError, match=r"The largest entries are: big \(1\.0 MiB\)"):
        copy(write(code / "big", bytes(1 << 20)), target, limit=1000)


def test_refuses_to_copy_the_run_into_itself(code: Path) -> None:
    target = code / "state" / "jobs" / "digits-abcdef" / "code" / "main"
    target.parents[1].mkdir(parents=True)
    write(code / "train.py")
    with pytest.raises(InputError, match=r"digits-abcdef: kedge keeps its run folders here.*\.kedgeignore"):
        copy(code, target)
    assert not target.parent.exists()
    write(code / ".kedgeignore", b"state/\n")
    assert copy(code, target).files == 2


def test_progress(code: Path, target: Path) -> None:
    write(code / "a", bytes(20 << 20))
    write(code / "b", bytes(1000))
    seen: list[tuple[int, int]] = []
    copy(code, target, progress=lambda done, total: seen.append((done, total)))
    total = (20 << 20) + 1000
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (total, total)
    assert len(seen) >= 3  # a large file shows more than its end


def test_across_file_systems(code: Path, small_disk: Path) -> None:
    data = os.urandom(300_000)
    write(code / "f", data)
    assert copy(code, small_disk / "code").bytes == 300_000
    assert (small_disk / "code" / "f").read_bytes() == data


def test_a_full_disk_leaves_nothing(code: Path, small_disk: Path) -> None:
    write(code / "fits", bytes(1 << 20))
    write(code / "more", bytes(2 << 20))
    with pytest.raises(DiskFull, match="main: cannot be written: the file system is full"):
        copy(code, small_disk / "main")
    assert os.listdir(small_disk) == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_an_interrupted_copy_leaves_nothing(code: Path, target: Path, stop: type[BaseException]) -> None:
    write(code / "f")

    def interrupt(done: int, total: int) -> None:
        raise stop

    with pytest.raises(stop):
        copy(code, target, progress=interrupt)
    assert os.listdir(target.parent) == []


def deleting(*paths: Path) -> Callable[[int, int], None]:
    return lambda done, total: [path.unlink(missing_ok=True) for path in paths] and None


def test_files_deleted_during_the_copy_are_named(code: Path, target: Path) -> None:
    write(code / "a")
    write(code / "b")
    os.symlink("a", code / "c")
    copied = copy(code, target, progress=deleting(code / "b", code / "c"))
    assert copied == Copied(1, 1, gone=("b", "c"))
    assert os.listdir(target) == ["a"]


CHURN = (
    "import os, shutil, sys\n"
    "print('begun', flush=True)\n"
    "while True:\n"
    "    for number in range(100):\n"
    "        folder = f'{sys.argv[1]}/{number:03}/new'\n"
    "        os.makedirs(folder); open(folder + '/file', 'w').close(); shutil.rmtree(folder)\n"
)


def test_files_that_come_and_go_do_not_end_the_copy(code: Path, target: Path) -> None:
    kept = [write(code / f"{number:03}" / "kept").relative_to(code) for number in range(100)]
    numbers = itertools.count()

    def copied_anew() -> Copied:
        return copy(code, target.with_name(str(next(numbers))))

    with subprocess.Popen([sys.executable, "-c", CHURN, code], stdout=subprocess.PIPE) as editor:
        assert editor.stdout
        editor.stdout.readline()
        try:
            wait_until(lambda: bool(copied_anew().gone), deadline=120.0)
        finally:
            editor.kill()
    assert all((path / name).exists() for path in target.parent.iterdir() for name in kept)


def test_holes_stay_holes_and_do_not_count(code: Path, target: Path) -> None:
    places = (0, 400 << 20, (1 << 30) - 5)
    with open(code / "sparse", "wb") as file:
        for place in places:
            file.seek(place)
            file.write(b"hello")
    written = (code / "sparse").stat().st_blocks * 512
    if written >= 1 << 30:
        pytest.skip("this file system has no holes")
    copied = copy(code, target, limit=1 << 20)
    info = (target / "sparse").stat()
    assert (info.st_size, info.st_blocks * 512) == (1 << 30, written)
    assert copied.bytes <= written
    with open(target / "sparse", "rb") as file:
        assert [os.pread(file.fileno(), 5, place) for place in places] == [b"hello"] * 3


def test_a_file_that_is_one_hole(code: Path, target: Path) -> None:
    with open(code / "sparse", "wb") as file:
        file.truncate(5000)
    copy(code, target)
    assert (target / "sparse").read_bytes() == bytes(5000)


def test_a_missing_folder(code: Path, target: Path) -> None:
    with pytest.raises(InputError, match=r"none: cannot be copied for the job: No such file or directory$"):
        copy(code / "none", target)


def test_an_unreadable_file_is_named(code: Path, target: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("root may read everything")
    refused = r"cannot be copied for the job: Permission denied; if the job does not need it, name it in \.kedgeignore"
    write(code / "sub" / "secret").chmod(0)
    with pytest.raises(InputError, match=f"sub/secret: {refused}"):
        copy(code, target)
    (code / "sub").chmod(0)
    with pytest.raises(InputError, match=f"code/sub: {refused}"):
        copy(code, target)
    (code / "sub").chmod(0o700)
    assert os.listdir(target.parent) == []


def test_kernel_files_without_a_size(target: Path) -> None:
    copy(Path("/proc/self/status"), target)
    assert b"Pid:" in (target / "status").read_bytes()


def test_names_that_are_not_utf_8(code: Path, target: Path) -> None:
    write(code / os.fsdecode(b"caf\xe9"))
    copy(code, target)
    assert os.listdir(os.fsencode(target)) == [b"caf\xe9"]


def test_a_deep_tree(code: Path, target: Path) -> None:
    write(Path(str(code) + "/d" * 150) / "f")
    assert copy(code, target).files == 1
