"""Downloaded archives are unpacked; damaged and hostile ones leave nothing."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile

import pytest
from tests.runtime.actions.downloads import cause


def tar(*entries, mode="w:gz"):
    """A tar file. An entry is a name and the content; or a name and (type, target)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                info.type, info.linkname = content
                archive.addfile(info)
            else:
                info.size, info.mode = len(content), 0o4755
                archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def zipped(*entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize("name", ["set.tar", "set.tar.gz", "set.tgz", "set.tar.bz2", "set.tar.xz", "set.zip"])
def test_archives_are_unpacked(download, served, tmp_path, name):
    entries = [("a/b/file", b"x"), ("empty", b""), (".hidden", b"y")]
    kinds = {"set.tar": "w", "set.tar.gz": "w:gz", "set.tgz": "w:gz", "set.tar.bz2": "w:bz2", "set.tar.xz": "w:xz"}
    data = zipped(*entries) if name == "set.zip" else tar(*entries, mode=kinds[name])
    (tmp_path / "set").mkdir()
    (tmp_path / "set/there").write_text("before")
    assert download(uri=served(name, data), path=str(tmp_path / "set")) == 0
    assert (tmp_path / "set/a/b/file").read_bytes() == b"x"
    assert sorted(os.listdir(tmp_path / "set")) == [".hidden", "a", "empty", "there"]
    mode = (tmp_path / "set/a/b/file").stat().st_mode
    assert mode & 0o7000 == 0


def test_unpacking_can_be_turned_off(download, served, tmp_path):
    data = tar(("a", b"x"))
    assert download(uri=served("set.tgz", data), path=str(tmp_path / "kept.tgz"), unpack=False) == 0
    assert (tmp_path / "kept.tgz").read_bytes() == data


def test_links_within_an_archive(download, served, tmp_path):
    data = tar(
        ("sub/link", (tarfile.SYMTYPE, "../file")), ("hard", (tarfile.LNKTYPE, "file")), ("file", b"x"),
        ("other", (tarfile.SYMTYPE, "sub/link")),
    )  # fmt: skip
    assert download(uri=served("set.tar.gz", data), path=str(tmp_path / "set")) == 0
    assert os.readlink(tmp_path / "set/sub/link") == "../file"
    assert (tmp_path / "set/other").read_bytes() == (tmp_path / "set/hard").read_bytes() == b"x"


def symlink_in_zip(target):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    return zipped((info, target))


HOSTILE = {
    "up.tar.gz": tar(("../evil", b"x")),
    "absolute.tar.gz": tar(("/tmp/kedge-evil", b"x")),
    "link-up.tar.gz": tar(("link", (tarfile.SYMTYPE, ".."))),
    "link-absolute.tar.gz": tar(("link", (tarfile.SYMTYPE, "/etc"))),
    "through-a-link.tar.gz": tar(("link", (tarfile.SYMTYPE, "sub")), ("link/file", b"x")),
    "links-in-a-row.tar.gz": tar(("d", (tarfile.SYMTYPE, ".")), ("e", (tarfile.SYMTYPE, "d/.."))),
    "a-link-in-a-link.tar.gz": tar(("a", (tarfile.SYMTYPE, ".")), ("a/c", (tarfile.SYMTYPE, "../x"))),
    "hard-link-up.tar.gz": tar(("link", (tarfile.LNKTYPE, "../../../../../../etc/passwd"))),
    "hard-link-to-a-link.tar.gz": tar(("s", (tarfile.SYMTYPE, "x")), ("h", (tarfile.LNKTYPE, "s"))),
    "device.tar.gz": tar(("null", (tarfile.CHRTYPE, ""))),
    "fifo.tar.gz": tar(("fifo", (tarfile.FIFOTYPE, ""))),
    "up.zip": zipped(("a/../../evil", b"x")),
    "backslash.zip": zipped(("..\\evil", b"x")),
    "link.zip": symlink_in_zip("../evil"),
    "cut.tar.gz": tar(("a", os.urandom(100_000)))[:50_000],
    "cut.zip": zipped(("a", b"x" * 1000))[:-30],
    "none.tar": b"no archive at all",
    "none.zip": b"no archive at all",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_leave_no_files(attempt, download, served, tmp_path, name):
    assert download(uri=served(name, HOSTILE[name]), path=str(tmp_path / "set")) == 255
    assert not (tmp_path / "set").exists()
    assert not list(tmp_path.rglob("evil"))
    assert not [path for path in tmp_path.iterdir() if ".kedge-" in path.name]
    assert "a bug in kedge" not in attempt.report["message"]
    if name not in ("through-a-link.tar.gz", "a-link-in-a-link.tar.gz"):
        assert cause(attempt) == "data_corrupt"


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz"])
def test_an_archive_bomb_is_stopped(attempt, download, served, tmp_path, name):
    zeros = bytes(50 << 20)
    data = zipped(("zeros", zeros)) if name == "bomb.zip" else tar(("zeros", zeros))
    assert download(uri=served(name, data), path=str(tmp_path / "set"), max_unpacked_bytes=10 << 20) == 255
    assert "unpacks to more than 10.5 MB" in attempt.report["message"]
    assert not (tmp_path / "set").exists()
