"""What the image of the runtime holds besides the bundle: the tree that the init phase copies into a pod's volume, and
a small root file system around a static busybox."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kedge.bundle import busybox, contents, tar
from kedge.contract import PAI_HOME

HOME = "/opt/kube-runtime"  # where OpenPAI's image has the tree
BUNDLE = f"{HOME}/{tar.TOP}"
_ENTRIES = ("init", "runtime")
# The volume of a pod hides these links; they are for building an image and for trying it out. The second folder is a
# misprint in the description of OpenPAI's interface.
_LINKS = (PAI_HOME, "/user/local/pai")
_EMPTY = ("runtime.d", "plugins")
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"
_TEMPORARY = 0o1777


class ImageEntry(NamedTuple):
    """One entry of the image: a folder, a link to `link`, or a file with `data`."""

    path: str
    data: bytes | None = None
    link: str | None = None
    mode: int = 0o755


def archive(bundle: Path, files: Iterable[str]) -> bytes:
    """A tar archive of the entries. `files` are the paths in the bundle."""
    entries = {entry.path: entry for entry in _entries(bundle, list(files))}
    for path in [*entries]:
        for parent in PurePosixPath(path).parents:
            entries.setdefault(str(parent), ImageEntry(str(parent)))
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as made:
        for path in sorted(entries.keys() - {"/"}):
            entry = entries[path]
            made.addfile(_member(entry), io.BytesIO(entry.data or b""))
    return file.getvalue()


def _member(entry: ImageEntry) -> tarfile.TarInfo:
    member = tarfile.TarInfo(entry.path.lstrip("/"))
    member.mode = entry.mode
    if entry.link is not None:
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777
    elif entry.data is None:
        member.type = tarfile.DIRTYPE
    else:
        member.size = len(entry.data)
    return member


def _entries(bundle: Path, files: Sequence[str]) -> Iterator[ImageEntry]:
    for name in _ENTRIES:
        yield ImageEntry(f"{HOME}/{name}", (bundle / name).read_bytes())
    for path in files:
        if path.startswith(f"{contents.INIT_D}/"):
            yield ImageEntry(f"{HOME}/{path}", (bundle / path).read_bytes())
    yield from (ImageEntry(f"{HOME}/{name}") for name in _EMPTY)
    for place in _LINKS:
        yield from (
            ImageEntry(f"{place}/{name}", link=f"{HOME}/{name}") for name in (*_ENTRIES, contents.INIT_D, tar.TOP)
        )
    yield from _root(bundle)


def _root(bundle: Path) -> Iterator[ImageEntry]:
    """The file system that programs of a site expect."""
    program = bundle / contents.BUSYBOX
    for name in ("busybox", *busybox.applets(program)):
        yield ImageEntry(f"/bin/{name}", link=f"{BUNDLE}/{contents.BUSYBOX}")
    for name in ("python", "python3"):
        yield ImageEntry(f"/bin/{name}", f'#!/bin/sh\nexec {BUNDLE}/bin/python3 "$@"\n'.encode())
    yield ImageEntry("/sbin", link="bin")
    yield ImageEntry("/usr/bin", link="../bin")
    yield ImageEntry("/usr/sbin", link="../bin")
    yield ImageEntry("/tmp", mode=_TEMPORARY)  # noqa: S108  (the folder itself)
    yield ImageEntry("/root", mode=0o700)
    yield ImageEntry("/etc/passwd", _PASSWD.encode(), mode=0o644)
    yield ImageEntry("/etc/group", _GROUP.encode(), mode=0o644)
