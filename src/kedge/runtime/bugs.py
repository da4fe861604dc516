"""What an error that nobody has thought of looks like in runtime.log."""

from __future__ import annotations

import contextlib
import io
import sys


def describe(error: Exception) -> str:
    """What Python says of an uncaught error (made without the traceback module, which is slow to load)."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        sys.__excepthook__(type(error), error, error.__traceback__)
    return f"[ERROR] a bug in kedge\n{text.getvalue()}"
