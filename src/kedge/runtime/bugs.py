"""What an error that nobody has thought of looks like in runtime.log."""

from __future__ import annotations

import contextlib
import io
import sys


def sentence(error: Exception) -> str:
    """One line for people about such an error."""
    if isinstance(error, MemoryError):
        return "too little memory for kedge's runtime: allow the task more"
    if isinstance(error, RecursionError):
        return "something that kedge's runtime has read is nested too deeply for it"
    return f"a bug in kedge, please report it: {type(error).__name__}: {error}"


def describe(error: Exception) -> str:
    """What Python says of an uncaught error (made without the traceback module, which is slow to load)."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        sys.__excepthook__(type(error), error, error.__traceback__)
    return f"[ERROR] a bug in kedge\n{text.getvalue()}"
