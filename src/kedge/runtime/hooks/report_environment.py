"""A separate program, started by the EXIT trap of a hook's script. It writes its environment to a descriptor.

    python -I -S report_environment.py FD SHELVED

/proc holds the environment as the shell passed it; Python may have changed its own copy (LC_CTYPE). A bundle's
bin/python3 renames some variables to names that begin with SHELVED, see LOADER_VARIABLES in kedge.contract.
"""

from __future__ import annotations

import os
import sys


def main(fd: int, shelved: str) -> None:
    """Write `E`, then the variables, each ended by a NUL, and one more NUL."""
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            variables = file.read()
    except OSError:
        variables = b"".join(name + b"=" + value + b"\0" for name, value in os.environb.items())
    given = b"".join(entry.removeprefix(shelved.encode()) + b"\0" for entry in variables.split(b"\0")[:-1])
    data = memoryview(b"E" + given + b"\0")
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
