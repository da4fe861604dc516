"""A program of a bundle: copies it to where the containers of a pod find it, with nothing but what is in it.

    python3 -I -S install.py FOLDER

FOLDER/kedge gets the bundle, FOLDER/runtime the script that starts the supervisor. The same bundle is left as it is.
"""

from __future__ import annotations

import os
import shutil
import sys

_MANIFEST = "MANIFEST.json"


def install(bundle: str, folder: str) -> None:
    """Copy aside, and put the copy in place. OSError as it comes."""
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
    """The exit status."""
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
