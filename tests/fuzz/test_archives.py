"""Whatever an archive contains, it is unpacked into its folder or refused; nothing is written outside."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import tempfile
import warnings
import zipfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.runtime.actions.base import ActionFailed
from kedge.runtime.actions.unpack import unpack

LIMIT = 1 << 20
NAMES = [
    "a", "b", "a/b", "a/b/c", "a/", "./a", "..", "../a", "/a", "a/../b", "", ".", "ä", "a\udcff", "x" * 256, "d/" * 300,
    "x" * 5000, "a\\..\\b", "C:\\x", "link", "link/x",
]  # fmt: skip
names = st.sampled_from(NAMES) | st.text(st.characters(blacklist_categories=["Cs"]), max_size=5)
kinds = st.sampled_from([*map(bytes, zip(b"01234567SLKxgXZ")), tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE])
PAX = {
    "mtime": ["1e30", "nan", "inf", "-1e30", "x", "-5"],
    "size": ["-5", "9" * 30, "x"],
    "path": ["../x", "/x", "", "a\0b", "x" * 5000],
    "linkpath": ["../x", "/etc/passwd", ""],
    "uid": ["9" * 30, "-1"],
    "GNU.sparse.map": ["0,5,9,1", "x", "5,0", "-1,5", "9" * 30 + ",1"],
    "GNU.sparse.size": ["9" * 15, "-1", "x"],
    "GNU.sparse.major": ["0", "1", "x"],
    "GNU.sparse.minor": ["0", "1"],
    "GNU.sparse.name": ["../x"],
    "GNU.sparse.realsize": ["5", "-1", "9" * 30, "x"],
    "hdrcharset": ["BINARY", "x"],
}
pax = st.dictionaries(st.sampled_from(list(PAX)), st.integers(0, 5), max_size=3).map(
    lambda chosen: {key: PAX[key][number % len(PAX[key])] for key, number in chosen.items()}
)
members = st.fixed_dictionaries({
    "name": names, "type": kinds, "linkname": names, "content": st.binary(max_size=600), "pax_headers": pax,
    "mode": st.sampled_from([0o644, 0o7777, 0]), "mtime": st.sampled_from([0, -1, 2**62, 1.5]),
})  # fmt: skip
damage = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=12), st.booleans()), max_size=3)
packers = st.sampled_from([bytes, bytes, gzip.compress, bz2.compress, lzma.compress])


def tar(wanted: list[dict[str, Any]], format: int) -> bytes:
    """An archive of those entries that Python can write."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for fields in wanted:
            info, content = tarfile.TarInfo(fields["name"]), fields["content"]
            for key in ("type", "linkname", "mode", "mtime", "pax_headers"):
                setattr(info, key, fields[key])
            info.size = len(content)
            before = file.tell()
            try:
                archive.addfile(info, io.BytesIO(content))
            except (ValueError, TypeError, OverflowError, UnicodeError):
                file.seek(before)
                file.truncate()
    return file.getvalue()


def damaged(data: bytes, changes: list[tuple[float, bytes, bool]]) -> bytes:
    """The data with some bytes overwritten, and on request with the checksum of the header around them corrected."""
    changed = bytearray(data)
    for place, field, repaired in changes:
        at = int(place * max(0, len(changed) - len(field)))
        changed[at : at + len(field)] = field
        start = at // 512 * 512
        header = changed[start : start + 512]
        if repaired and len(header) == 512:
            header[148:156] = b" " * 8
            changed[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    return bytes(changed)


def failure(path: str, name: str, folder: str) -> ActionFailed | None:
    try:
        unpack(path, name, folder, LIMIT)
    except ActionFailed as failed:
        return failed
    return None


def check(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = f"{place}/in/set"
        os.makedirs(folder)
        with open(f"{place}/archive", "wb") as file:
            file.write(data)
        if failed := failure(f"{place}/archive", name, folder):
            assert failed.cause in ("data_corrupt", "bad_config"), failed
            assert str(failed).isprintable()
            assert len(str(failed)) < 1500
        assert (sorted(os.listdir(place)), os.listdir(f"{place}/in")) == (["archive", "in"], ["set"])
        inside = os.path.realpath(folder)
        for here, folders, files in os.walk(folder):
            for each in (*folders, *files):
                path = os.path.join(here, each)
                assert os.path.realpath(path).startswith(inside)
                assert os.path.islink(path) or not os.lstat(path).st_mode & 0o7022 & ~0o022


@given(st.lists(members, max_size=5), st.integers(0, 2), damage, packers, damage)
@settings(max_examples=80)
def test_any_tar(wanted: list[dict[str, Any]], format: int, inner: Any, pack: Any, outer: Any) -> None:
    data = pack(damaged(tar(wanted, format), inner))
    check("x.tar", damaged(data, outer) if pack is not bytes else data)


@given(
    st.lists(st.tuples(names, st.binary(max_size=600), st.integers(0, 0xFFFFFFFF), st.booleans()), max_size=5), damage
)
@settings(max_examples=100)
def test_any_zip(wanted: list[tuple[str, bytes, int, bool]], changes: Any) -> None:
    file = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(file, "w") as archive:
        for name, content, attributes, deflated in wanted:
            info = zipfile.ZipInfo(name or "x")
            info.external_attr = attributes
            info.compress_type = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
            if not name.isascii() and "\udcff" in name:
                continue
            archive.writestr(info, content)
    check("x.zip", damaged(file.getvalue(), changes))


@given(st.binary(max_size=3000), st.sampled_from(["x.tar", "x.tar.gz", "x.zip"]))
@settings(max_examples=50)
def test_any_bytes(data: bytes, name: str) -> None:
    check(name, data)
