"""Files that a user names, as a job file or its rules: read up to a limit, and never waited for.

A pipe is read only where it is one that this process was given: /dev/stdin, or the `<(…)` of a shell.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from kedge import untrusted

_GIVEN = re.compile(r"/dev/stdin|(?:/dev/fd|/proc/self/fd)/[0-9]+")


def is_given(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a descriptor of this process."""
    return _GIVEN.fullmatch(os.fspath(path)) is not None


def read(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a file. OSError says in its `strerror`, for people, also that it is no regular file, or larger
    than `limit` bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # which waits for no writer of a pipe
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
    """What a file that is none is, by its `st_mode`."""
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device"
