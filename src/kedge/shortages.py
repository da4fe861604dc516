"""Errors caused by the machine, not by kedge: too little memory, too many open files, a full disk; with advice."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator

from kedge.errors import CannotRun, DiskFull, InputError, KedgeError

_MEMORY = "too little memory: raise the limit (ulimit -v, the container's limit) or end other programs"
_THREADS = "no thread can be started: too many processes (ulimit -u, the container's limit) or too little memory"
_NESTED = "a file that kedge read is nested too deeply"
_PROBE = 16 << 20  # bytes; if these cannot be allocated, the memory is used up
_ADVICE = {
    errno.ENOSPC: "free some space there, or use another place",
    errno.EDQUOT: "free some space there, or use another place",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "the whole machine has too many open files",
    errno.EACCES: "run kedge as a user who is allowed to do this, or use another place",
    errno.EPERM: "run kedge as a user who is allowed to do this, or use another place",
    errno.EROFS: "use a place that is writable",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EAGAIN: "too many processes, or another limit is reached (ulimit -a)",
    errno.ENOTDIR: "a part of this path is a file",
    errno.ELOOP: "the path contains a loop of links",
}
# The exceptions that the interpreter may raise instead of MemoryError when it gets no memory.
_DISGUISES = (ImportError, SyntaxError, SystemError, RuntimeError, OSError, ValueError)


def explained(error: BaseException) -> KedgeError | None:
    """The error with an explanation for the user. None if only a bug in kedge can explain it."""
    if any(isinstance(one, MemoryError) for one in _chain(error)):
        return CannotRun(_MEMORY)
    if isinstance(error, RecursionError):
        return InputError(_NESTED)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return CannotRun(_THREADS)
    if isinstance(error, _DISGUISES) and not _has_memory():
        return CannotRun(_MEMORY)
    return _of_os_error(error) if isinstance(error, OSError) else None


def _of_os_error(error: OSError) -> KedgeError:
    if error.errno == errno.ENOMEM:
        return CannotRun(_MEMORY)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    name = error.filename or ("stdout" if full else None)
    reason = error.strerror or str(error) or type(error).__name__
    message = f"{os.fsdecode(name)}: {reason}" if isinstance(name, str | bytes) else reason
    advice = _ADVICE.get(error.errno or 0)
    return (DiskFull if full else CannotRun)(f"{message}: {advice}" if advice else message)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and the errors that caused it."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _has_memory() -> bool:
    try:
        mmap.mmap(-1, _PROBE).close()
    except (OSError, MemoryError):
        return False
    return True
