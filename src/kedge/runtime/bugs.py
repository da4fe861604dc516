"""How an unexpected exception is shown to the user and in runtime.log."""

from __future__ import annotations

import io
import sys


def sentence(error: Exception) -> str:
    """One line for the user about an unexpected exception."""
    if isinstance(error, MemoryError):
        return "kedge's runtime ran out of memory: give the task more"
    if isinstance(error, RecursionError):
        return "a file that kedge's runtime read is nested too deeply"
    return f"a bug in kedge, please report it: {type(error).__name__}: {error}"


def describe(error: Exception) -> str:
    """Python's own text for an uncaught exception, made without the traceback module, which is slow to load."""
    sys.stderr, stderr = io.StringIO(), sys.stderr
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
        return f"[ERROR] a bug in kedge\n{sys.stderr.getvalue()}"
    finally:
        sys.stderr = stderr
