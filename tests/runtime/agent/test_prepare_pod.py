"""The program of a pod's init container."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from tests.runtime.agent.pod_rig import prepare

from kedge.link import pod_folders
from kedge.runtime.agent import pod_code
from kedge.runtime.agent.pod_code import COPIED, SHARED, CodeDamaged


def mode(path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def write_pieces(folder: Path, members, size=100) -> None:
    """A tar.gz in pieces, with names as kubelet shows them."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.mtime = kind, 1_000_000
            member.mode = 0o700 if kind == tarfile.DIRTYPE else 0o500 if name.endswith(".sh") else 0o600
            if kind == tarfile.REGTYPE:
                member.size = len(data)
            elif kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                member.linkname = data.decode()
            archive.addfile(member, io.BytesIO(data))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "..data").mkdir(exist_ok=True)
    whole = file.getvalue()
    for number, at in enumerate(range(0, len(whole), size)):
        (folder / "..data" / f"code-{number}").write_bytes(whole[at : at + size])
        (folder / f"code-{number}").symlink_to(f"..data/code-{number}")


MEMBERS = [
    ("train", tarfile.DIRTYPE, b""),
    ("train/main.sh", tarfile.REGTYPE, os.urandom(2000)),
    ("train/data", tarfile.SYMTYPE, b"/mnt/data"),
    ("train/inner/x.py", tarfile.REGTYPE, b"x"),
    ("other/y", tarfile.REGTYPE, b"y"),
]


def test_a_pod_without_code(tmp_path):
    done = prepare(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    at = lambda path: f"{tmp_path}{path}"  # noqa: E731
    assert all(stat.S_ISFIFO(os.lstat(at(path)).st_mode) for path in (pod_folders.STATUS, pod_folders.CONTROL))
    assert [mode(at(path)) for path in (pod_folders.STATUS, pod_folders.OUTPUT, pod_folders.SHARED)] == [
        0o666, 0o777, 0o755,
    ]  # fmt: skip
    assert os.path.exists(at(f"{pod_folders.BUNDLE}/runtime"))
    assert not os.path.exists(at(f"{pod_folders.BUNDLE}/init.d"))
    assert mode(at(f"{pod_folders.PAI}/runtime")) == 0o755
    assert prepare(tmp_path).returncode == 0, "the cluster may start it again"


def test_code_for_copies(tmp_path):
    write_pieces(tmp_path / "kedge" / "code", MEMBERS)
    for _ in range(2):
        done = prepare(tmp_path, "--code", "train")
        assert (done.returncode, done.stderr) == (0, "")
    snapshot = Path(f"{tmp_path}{pod_folders.SNAPSHOT}")
    assert sorted(os.listdir(snapshot)) == ["data", "inner", "main.sh"]
    assert (snapshot / "main.sh").read_bytes() == MEMBERS[1][2]
    assert os.readlink(snapshot / "data") == "/mnt/data"
    assert [mode(snapshot / name) for name in ("main.sh", "inner/x.py", "inner", "")] == [0o777, 0o666, 0o755, 0o777]
    assert (snapshot / "main.sh").stat().st_mtime == 1_000_000


def test_code_that_tasks_share(tmp_path):
    write_pieces(tmp_path / "kedge" / "code", MEMBERS)
    assert prepare(tmp_path, "--code", "train", "--shares-code").returncode == 0
    code = Path(f"{tmp_path}{pod_folders.SCRIPTS}/train")
    assert [mode(code / name) for name in ("main.sh", "inner/x.py", "")] == [0o555, 0o444, 0o555]
    assert prepare(tmp_path, "--code", "train", "--shares-code").returncode == 0


@pytest.mark.parametrize(
    "members",
    [
        [("train/../../x", tarfile.REGTYPE, b"x")],
        [("/train/x", tarfile.REGTYPE, b"x")],
        [("train/x", tarfile.FIFOTYPE, b"")],
        [("train/x", tarfile.LNKTYPE, b"train/y")],
        [("other/x", tarfile.REGTYPE, b"x")],
    ],
)
def test_code_that_is_not_unpacked(tmp_path, members):
    write_pieces(tmp_path / "pieces", members)
    with pytest.raises(CodeDamaged):
        pod_code.unpack(str(tmp_path / "pieces"), "train", str(tmp_path / "code"), COPIED)


def test_nothing_is_written_through_a_link_of_the_code(tmp_path):
    members = [("train/a", tarfile.SYMTYPE, str(tmp_path).encode()), ("train/a/x", tarfile.REGTYPE, b"x")]
    write_pieces(tmp_path / "pieces", members)
    with pytest.raises(OSError, match="File exists"):
        pod_code.unpack(str(tmp_path / "pieces"), "train", str(tmp_path / "code"), SHARED)
    assert not (tmp_path / "x").exists()


def test_a_piece_that_is_missing(tmp_path):
    write_pieces(tmp_path / "kedge" / "code", MEMBERS)
    (tmp_path / "kedge" / "code" / "code-3").unlink()
    done = prepare(tmp_path, "--code", "train")
    assert done.returncode == 1
    assert done.stderr.startswith(f"kedge: the code in {tmp_path}/kedge/code cannot be unpacked: ")
    assert "Traceback" not in done.stderr


def test_a_volume_that_cannot_be_written(tmp_path):
    (tmp_path / "usr").write_text("")
    done = prepare(tmp_path)
    assert (done.returncode, done.stderr) == (
        1, f"kedge: the pod of the task cannot be prepared: {tmp_path}/usr/local/pai/kedge.partial: Not a directory\n",
    )  # fmt: skip
