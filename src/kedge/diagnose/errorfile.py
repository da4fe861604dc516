"""The file in which torchelastic's `@record` leaves an exception (torch/distributed/elastic/.../error_handler.py)."""

from __future__ import annotations

import json


def text(content: str) -> str:
    """The traceback in `{"message": {"message": …, "extraInfo": {"py_callstack": …}}}`, else the content as it is."""
    try:
        message = json.loads(content)["message"]
        return message if isinstance(message, str) else str(message["extraInfo"]["py_callstack"])
    except (ValueError, KeyError, TypeError):
        return content
