"""Malicious archives: names, links, times, sizes and headers that no correct program writes."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kedge.runtime.actions.base import ActionFailed
from kedge.runtime.actions.unpack import unpack

Unpack = Callable[..., Path]


@pytest.fixture
def into(tmp_path: Path) -> Unpack:
    """Unpack bytes as a file with this name, and return the folder."""

    def run(name: str, data: bytes, limit: int | None = None) -> Path:
        (tmp_path / "archive").write_bytes(data)
        folder = tmp_path / "set"
        folder.mkdir()
        unpack(str(tmp_path / "archive"), name, str(folder), limit)
        return folder

    return run


def member(name: str, content: bytes = b"x", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def tar(*members: tuple[tarfile.TarInfo, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def patched(data: bytes, at: int, field: bytes) -> bytes:
    """A tar archive with a changed first header and a correct checksum."""
    header = bytearray(data[:512])
    header[at : at + len(field)] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[512:]


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def refused(into: Unpack, name: str, data: bytes, cause: str = "data_corrupt", limit: int | None = None) -> str:
    with pytest.raises(ActionFailed) as caught:
        into(name, data, limit)
    assert caught.value.cause == cause
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()
    return str(caught.value)


# Times, modes, owners.


@pytest.mark.parametrize("mtime", ["1e30", "nan", "inf", "-inf", "-1e30", "1" * 400])
def test_times_that_no_file_can_have_are_ignored(into: Unpack, mtime: str) -> None:
    folder = into("x.tar", tar(member("a", pax_headers={"mtime": mtime})))
    assert (folder / "a").read_bytes() == b"x"


@pytest.mark.parametrize("mtime", [-1, 0, 1.5, 2**33])
def test_other_times_are_kept(into: Unpack, mtime: float) -> None:
    folder = into("x.tar", tar(member("a", pax_headers={"mtime": str(mtime)})))
    assert (folder / "a").stat().st_mtime == mtime


def test_a_time_in_256_bits(into: Unpack) -> None:
    folder = into("x.tar", patched(tar(member("a")), 136, b"\x80" + b"\xff" * 11))
    assert (folder / "a").read_bytes() == b"x"


@pytest.mark.parametrize("at", [100, 108, 116, 329, 337], ids=["mode", "uid", "gid", "major", "minor"])
@pytest.mark.parametrize("field", [b"\x80\xff\xff\xff\xff\xff\xff\xff", b"\xff" * 8], ids=["huge", "negative"])
def test_invalid_modes_and_owners_are_ignored(into: Unpack, at: int, field: bytes) -> None:
    folder = into("x.tar", patched(tar(member("a")), at, field))
    found = (folder / "a").stat()
    assert (found.st_uid, found.st_gid) == (os.getuid(), folder.stat().st_gid)
    assert found.st_mode & 0o7022 == 0
    assert found.st_mode & 0o600 == 0o600


# Sizes.


@pytest.mark.parametrize("field", [b"\xff" * 12, b"\xff" * 11 + b"\x00", b"\x80" + b"\xff" * 11])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.DIRTYPE])
def test_negative_and_impossible_sizes(into: Unpack, field: bytes, kind: bytes) -> None:
    data = patched(tar(member("a", b"x" * 600), member("b")), 124, field + b"\0" * 20 + kind)
    refused(into, "x.tar", data)


def test_a_header_of_many_megabytes(into: Unpack) -> None:
    first = patched(tar(member("a", b"")), 124, b"%011o\0" % (1 << 32))
    header = patched(first, 156, tarfile.XHDTYPE)[:512]
    packed = gzip.compress(header + bytes(8 << 20), 1)
    assert "a header has 4294967296 bytes" in refused(into, "x.tar.gz", packed)


def test_a_bomb_after_the_end(into: Unpack) -> None:
    packed = gzip.compress(tar(member("a")) + bytes(30 << 20), 1)
    assert "far larger than its members" in refused(into, "x.tar.gz", packed, limit=1 << 20)


def test_a_sparse_file_without_any_data(into: Unpack) -> None:
    pax = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 60)}
    assert "unpacks to more than" in refused(into, "x.tar", tar(member("a", b"", pax_headers=pax)), limit=1 << 20)


@pytest.mark.parametrize(
    "pax",
    [{"GNU.sparse.size": "x"}, {"GNU.sparse.map": "a,b"}, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
     {"size": "-5"}, {"size": "9" * 30}, {"path": ""}, {"path": "a\0b"}, {"linkpath": "x" * 9000, "path": "/"}],
)  # fmt: skip
def test_invalid_pax_headers(into: Unpack, pax: dict[str, str]) -> None:
    with pytest.raises(ActionFailed) as caught:
        into("x.tar", tar(member("a", b"x" * 700, pax_headers=pax), member("b")))
    assert caught.value.cause == "data_corrupt"


def test_a_global_header_with_a_thousand_entries(into: Unpack) -> None:
    file = io.BytesIO()
    pax = {f"comment{number}": "x" for number in range(1001)}
    with tarfile.open(fileobj=file, mode="w", pax_headers=pax) as archive:
        archive.addfile(*member("a")[:1], io.BytesIO(b"x"))
    assert "too many entries" in refused(into, "x.tar", file.getvalue())


# Damage.


def test_damage_in_the_middle_is_not_taken_for_the_end(into: Unpack) -> None:
    data = bytearray(tar(member("a"), member("b")))
    data[1024:1100] = b"!" * 76
    assert "is not a header" in refused(into, "x.tar", bytes(data))


@pytest.mark.parametrize("cut", [1, 100, 511, 513, 1030, 1535])
def test_a_truncated_tar(into: Unpack, cut: int) -> None:
    refused(into, "x.tar", tar(member("a"), member("b", b"y" * 100))[:cut] if cut != 1 else b"")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["x.tar", "x.tgz", "x.tar.bz2", "x.tar.xz"])
def test_the_actual_compression_counts_not_the_name(into: Unpack, pack: Callable[[bytes], bytes], name: str) -> None:
    assert (into(name, pack(tar(member("a")))) / "a").exists()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_damaged_compression(into: Unpack, pack: Callable[[bytes], bytes]) -> None:
    data = bytearray(pack(tar(member("a", os.urandom(5000)))))
    data[2000] ^= 0xFF
    refused(into, "x.tar", bytes(data))


def test_lzma_of_the_old_form(into: Unpack) -> None:
    data = lzma.compress(tar(member("a")), lzma.FORMAT_ALONE)
    assert (into("x.tar.lzma", data) / "a").exists()


# Names.

NAMES = {
    "nothing": "",
    "a dot": ".",
    "absolute": "/x",
    "up": "a/../../x",
    "long": "x" * 256,
    "5000 bytes": "x" * 5000,
    "long in all": "/".join(["x" * 200] * 25)[1:],
    "deep": "d/" * 300 + "x",
    "very deep": "d/" * 30_000 + "x",
}


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("name", NAMES)
def test_invalid_names(into: Unpack, kind: str, name: str) -> None:
    called = NAMES[name]
    if (kind, called) == ("zip", ""):
        pytest.skip("zipfile cannot make it")
    data = tar(member(called)) if kind == "tar" else zipped((called, b"x"))
    refused(into, f"x.{kind}", data)


def test_a_zip_with_nul_in_a_name(into: Unpack) -> None:
    assert "is not a valid file name" in refused(into, "x.zip", zipped(("a.b", b"x")).replace(b"a.b", b"a\0b"))


def test_a_zip_with_names_that_are_not_utf_8(into: Unpack) -> None:
    data = zipped(("ä.b", b"x")).replace("ä.b".encode(), b"\xff\xfe.b")
    assert "damaged" in refused(into, "x.zip", data)


def test_a_tar_may_have_names_in_any_encoding(into: Unpack) -> None:
    folder = into("x.tar", tar(member("a\udcff"), format=tarfile.GNU_FORMAT))
    assert os.listdir(os.fsencode(folder)) == [b"a\xff"]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_of_two_entries_for_a_file_the_later_one_wins(into: Unpack, kind: str) -> None:
    names = [("a", b"1"), ("a", b"2")]
    if kind == "tar":
        data = tar(*(member(*each) for each in names))
    else:
        with pytest.warns(UserWarning, match="Duplicate name"):
            data = zipped(*names)
    assert (into(f"x.{kind}", data) / "a").read_bytes() == b"2"


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), ("a", "a/"), ("a/b/c", "a/b")])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_file_and_a_folder_with_the_same_name(into: Unpack, kind: str, names: tuple[str, ...]) -> None:
    folders = {"type": tarfile.DIRTYPE}
    members = (member(n.rstrip("/"), b"", **(folders if n.endswith("/") else {})) for n in names)
    data = tar(*members) if kind == "tar" else zipped(*((n, b"") for n in names))
    assert "appears twice with different types" in refused(into, f"x.{kind}", data)


# Links.


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, b"", type=kind, linkname=target)


def test_a_file_that_tar_was_given_twice(into: Unpack) -> None:
    data = tar(member("a"), link("a", "a", tarfile.LNKTYPE), link("s", "x"), link("s", "a"))
    folder = into("x.tar", data)
    assert (folder / "a").read_bytes() == b"x"
    assert os.readlink(folder / "s") == "a"


@pytest.mark.parametrize(
    "members",
    [[member("a"), link("a", "b")], [member("a/b"), link("a", "c")], [link("h", "/etc/passwd", tarfile.LNKTYPE)],
     [link("h", "../x", tarfile.LNKTYPE)], [link("h", "h", tarfile.LNKTYPE)], [link("h", "", tarfile.LNKTYPE)],
     [link("s", "x" * 5000)], [link("s", "")], [link("s", "a/../../x")], [member("a"), member("b"),
     link("b", "a", tarfile.LNKTYPE)]],
)  # fmt: skip
def test_invalid_links(into: Unpack, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    refused(into, "x.tar", tar(*members))


# Zips.


def test_an_encrypted_zip(into: Unpack) -> None:
    data = bytearray(zipped(("a", b"x")))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    assert "is encrypted" in refused(into, "x.zip", bytes(data), "bad_config")


def test_an_unsupported_compression(into: Unpack) -> None:
    data = bytearray(zipped(("a", b"x")))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.index(signature) + offset] = 77
    assert "set 'unpack: false'" in refused(into, "x.zip", bytes(data), "bad_config")


@pytest.mark.parametrize("at", range(4, 46, 2))
def test_any_field_of_a_zip_may_be_wrong(into: Unpack, at: int) -> None:
    data = bytearray(zipped(("abc", b"x" * 100)))
    place = data.index(b"PK\x01\x02") + at
    data[place : place + 2] = struct.pack("<H", 0xFFF0)
    with contextlib.suppress(ActionFailed):
        into("x.zip", bytes(data))


def test_a_link_in_a_zip_of_a_gigabyte(into: Unpack) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    assert "is a link of 5000 bytes" in refused(into, "x.zip", zipped((info, b"x" * 5000)))


def test_the_file_that_fills_the_disk_is_named(tmp_path: Path) -> None:
    """A file system of 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    (tmp_path / "x.tar").write_bytes(tar(member("big", bytes(4 << 20))))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False).returncode:
        pytest.skip("only root can mount")
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            unpack(str(tmp_path / "x.tar"), "x.tar", str(folder))
        assert caught.value.filename == str(folder / "big")
    finally:
        subprocess.run(["umount", folder], check=True)
