"""A bundle as a tar archive that is the same wherever and whenever it is made."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from kedge.bundle import manifest

TOP = "kedge"  # the folder in the archive


def write(bundle: Path, path: Path) -> None:
    """Archive a whole bundle, compressed if the name ends with .gz or .tgz. OSError if that fails."""
    names = [manifest.NAME, *(entry.path for entry in manifest.entries(bundle))]
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            if path.suffix in (".gz", ".tgz"):
                with compressed(file) as inner:
                    add(bundle, inner, names)
            else:
                add(bundle, file, names)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def add(bundle: Path, file: IO[bytes] | gzip.GzipFile, names: Iterable[str], top: str = TOP) -> None:
    """Write an archive of these files of a bundle and their folders, below the folder `top`."""
    chosen = sorted(names)
    folders = {parent for name in chosen for parent in PurePosixPath(top, name).parents}
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in sorted(folders - {PurePosixPath(".")}):
            archive.addfile(_member(str(folder), tarfile.DIRTYPE, 0o755))
        for member, data in _files(bundle, chosen, top):
            archive.addfile(member, io.BytesIO(data))


def compressed(file: IO[bytes]) -> gzip.GzipFile:
    """A compressor that writes to `file`, without a time and a name in the header."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


def _files(bundle: Path, names: Iterable[str], top: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    for name in names:
        data = (bundle / name).read_bytes()
        mode = 0o755 if (bundle / name).stat().st_mode & 0o100 else 0o644
        yield _member(f"{top}/{name}", tarfile.REGTYPE, mode, len(data)), data


def _member(name: str, kind: bytes, mode: int, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size = kind, mode, size
    return member
