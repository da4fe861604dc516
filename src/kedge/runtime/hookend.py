"""A program of its own, started by the trap of a hook's script: writes the environment that it got to a descriptor.

    python -I -S hookend.py FD

/proc shows it as the shell gave it; Python may have changed its own copy (LC_CTYPE).
"""

from __future__ import annotations

import os
import sys


def main(fd: int) -> None:
    """Write `E`, the variables, each with a NUL behind it, and one more NUL."""
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            variables = file.read()
    except OSError:
        variables = b"".join(name + b"=" + value + b"\0" for name, value in os.environb.items())
    data = memoryview(b"E" + variables + b"\0")
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main(int(sys.argv[1]))
