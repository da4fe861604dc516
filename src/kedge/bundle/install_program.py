"""A program inside a bundle that copies the bundle to a folder where the containers of a pod find it.

    python3 -I -S install.py FOLDER

The bundle is copied to FOLDER/kedge, and the script that starts the supervisor to FOLDER/runtime. If FOLDER/kedge is
the same bundle already, it is left as it is.
"""

from __future__ import annotations

import os
import shutil
import sys

_MANIFEST = "MANIFEST.json"


def install(bundle: str, folder: str) -> None:
    """Copy the bundle to a temporary folder and move it into place. OSError if that fails."""
    target = os.path.join(folder, "kedge")
    if not _is_same(bundle, target):
        partial = f"{target}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(bundle, partial)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(partial, target)
    shutil.copy(os.path.join(bundle, "runtime"), os.path.join(folder, "runtime"))


def _is_same(one: str, other: str) -> bool:
    try:
        with open(os.path.join(one, _MANIFEST), "rb") as first, open(os.path.join(other, _MANIFEST), "rb") as second:
            return first.read() == second.read()
    except OSError:
        return False


def main(arguments: list[str]) -> int:
    """Install the bundle and return the exit status."""
    try:
        (folder,) = arguments
        install(os.path.dirname(os.path.abspath(__file__)), folder)
    except ValueError:
        sys.stderr.write("usage: install.py FOLDER\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"kedge: the bundle cannot be copied to {folder}: {error}\n")
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
