"""Functions of the C library that Python does not have, by the part of `ctypes` that is written in C. The rest of it
would take a tenth of the supervisor's start."""

from __future__ import annotations

import _ctypes
import os


def address(function: str) -> int:
    """Where the C library holds a function. OSError if it has none of this name."""
    return _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), function)  # type: ignore[arg-type]  # None is this program


def call(address: int, *arguments: int) -> int:
    """Call the function at `address`. Other threads run meanwhile."""
    result: int = _ctypes.call_function(address, arguments)
    return result
