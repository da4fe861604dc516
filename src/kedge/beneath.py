"""Opening what a path names inside a folder that a task can write: links are followed only while they stay inside."""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from kedge.untrusted import FOLDER

LOOK = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)  # flags to find out what something is, without acting on it
_OPENAT2 = 437  # its number on every architecture of Linux but alpha
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08  # linux/openat2.h
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EPERM})  # an old kernel, an old container engine
_TRIES = 100  # the kernel asks to try again if something was renamed meanwhile


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open `path` below an open folder. OSError with EXDEV if it leads out of the folder: through an absolute link, or
    above it. Where the system cannot check that, a part of the path that is a link is an error (ELOOP)."""
    flags |= os.O_CLOEXEC
    if sys.platform.startswith("linux"):
        for _ in range(_TRIES):
            try:
                return _open(folder, path or ".", flags)
            except OSError as error:
                if error.errno in _UNSUPPORTED:
                    break
                if error.errno != errno.EAGAIN:
                    raise
    return _open_without_links(folder, path, flags)


def _open(folder: int, path: str, flags: int) -> int:
    how = _OpenHow(flags, 0, _BENEATH | _NO_MAGIC_LINKS)
    system = ctypes.CDLL(None, use_errno=True)
    fd = int(system.syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


def _open_without_links(folder: int, path: str, flags: int) -> int:
    *parents, last = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    if path.startswith("/") or ".." in (*parents, last):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    at = os.dup(folder)
    try:
        for name in parents:
            outer, at = at, os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(outer)
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)
