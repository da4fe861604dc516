"""A separate program from which git gets credentials (git-credential(1)). They come from an inherited descriptor and go
through a pipe, so they never appear in an argument, the environment or a file on disk.

    python -I -S git_credential.py FD get

The descriptor is a file with a JSON object: `protocol`, `host`, `username`, `password`. For other hosts nothing is
printed.
"""

from __future__ import annotations

import json
import os
import sys


def main(fd: int, operation: str) -> None:
    """Print the credentials for `get`. `store` and `erase` are ignored."""
    if operation != "get":
        return
    request = dict(line.split("=", 1) for line in sys.stdin.read().splitlines() if "=" in line)
    login = json.loads(os.pread(fd, 1 << 20, 0))
    if (request.get("protocol"), request.get("host")) == (login["protocol"], login["host"]):
        sys.stdout.write(f"username={login['username']}\npassword={login['password']}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
