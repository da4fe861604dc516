"""Reading files that a user names, such as a job file or rules: up to a limit, and without blocking.

A pipe is read only if this process inherited it: /dev/stdin, or the `<(…)` of a shell.
"""

from __future__ import annotations

import errno
import os
import stat

from kedge import untrusted

_STDIN = "/dev", "stdin"


def is_given(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a descriptor of this process."""
    folder, _, name = os.fspath(path).rpartition("/")
    return (folder in ("/dev/fd", "/proc/self/fd") and name.isascii() and name.isdigit()) or (folder, name) == _STDIN


def read(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a file. OSError also if it is not a regular file or is larger than `limit` bytes; its `strerror` is a text
    for the user."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # does not wait for a pipe's writer
    try:
        mode = os.fstat(fd).st_mode
        if is_given(path) and (stat.S_ISFIFO(mode) or os.isatty(fd)):
            os.set_blocking(fd, True)
        elif not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, f"it is {kind(mode)}, not a regular file", os.fspath(path))
        data = untrusted.read_up_to(fd, limit)
    finally:
        os.close(fd)
    if data is None:
        raise OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB", os.fspath(path))
    return data


def kind(mode: int) -> str:
    """The kind of something that is not a regular file, by its `st_mode`."""
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device"
