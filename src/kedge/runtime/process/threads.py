"""Threads for system calls that take long. Everything else is done by the loop."""

from __future__ import annotations

import _thread

from kedge.light import contextlib
from kedge.light.types import Any, Callable
from kedge.runtime.process import c_library, signals

_STACK = 1 << 18  # bytes; 8 MiB by default, and address space may be limited
_M_ARENA_MAX = -8  # malloc.h


def start(function: Callable[..., object], *arguments: Any) -> None:
    """Call `function` in a thread of its own, which is left to itself if it still runs when the process ends.
    RuntimeError if no thread can be started."""
    with contextlib.suppress(OSError):  # another C library than glibc, which reserves 64 MiB of addresses for a thread
        c_library.call(c_library.address("mallopt"), _M_ARENA_MAX, 1)
    before = _thread.stack_size(_STACK)
    signals.block()  # a thread inherits this: signals are for the loop
    try:
        _thread.start_new_thread(function, arguments)
    finally:
        signals.unblock()
        _thread.stack_size(before)
