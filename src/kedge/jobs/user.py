"""Who submits."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """The user's name; the uid of a user without a name, as in many containers."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13, OSError since
        return str(os.getuid())
    return name.encode(errors="replace").decode()
