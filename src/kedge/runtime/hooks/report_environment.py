"""A program of its own, started by the trap of a hook's script: writes the environment that it got to a descriptor.

    python -I -S report_environment.py FD

/proc shows it as the shell gave it; Python may have changed its own copy (LC_CTYPE). A bundle's bin/python3 has put
some variables aside, see LOADER_VARIABLES in kedge.contract.
"""

from __future__ import annotations

import os
import sys

_SHELVED = b"KEDGE_IMAGE_"


def main(fd: int) -> None:
    """Write `E`, the variables, each with a NUL behind it, and one more NUL."""
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            variables = file.read()
    except OSError:
        variables = b"".join(name + b"=" + value + b"\0" for name, value in os.environb.items())
    given = b"".join(entry.removeprefix(_SHELVED) + b"\0" for entry in variables.split(b"\0")[:-1])
    data = memoryview(b"E" + given + b"\0")
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main(int(sys.argv[1]))
