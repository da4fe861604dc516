"""Looks at the folder of a storage. A program of its own, because a file system whose server is gone blocks any process
that asks about it, perhaps forever.

Reads {"folder", "sub", "make", "kind"} from stdin as JSON, and prints {"real", "problem", "missing"}: the folder
without links, why it cannot be used, and whether the folder `sub` in it has to be made first.
"""

from __future__ import annotations

import json
import os
import sys

KINDS = {"nfs": ("nfs", "nfs4", "autofs"), "cifs": ("cifs", "smb3", "autofs")}  # types of file systems


def look(folder: str, sub: str, make: bool, kind: str) -> dict[str, object]:
    """What the program prints."""
    real = os.path.realpath(folder)
    if problem := _unusable(real, folder) or (kind and _not_mounted(real, folder, kind)):
        return {"real": real, "problem": problem}
    if not sub:
        return {"real": real}
    inner = os.path.join(real, sub)
    if os.path.realpath(inner) != inner:
        return {"real": real, "problem": f"{inner} leads elsewhere through a link"}
    if not os.path.lexists(inner):
        return _made(inner) if make else {"real": inner, "missing": True}
    return {"real": inner, "problem": _unusable(inner, inner)}


def _unusable(real: str, shown: str) -> str | None:
    try:
        os.stat(real)
    except FileNotFoundError:
        return f"there is no folder {shown}"
    except OSError as error:
        return f"{shown} cannot be used: {error.strerror}"
    if not os.path.isdir(real):
        return f"{shown} is not a folder"
    return None if os.access(real, os.X_OK) else f"you have no permission to enter {shown}"


def _made(folder: str) -> dict[str, object]:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        return {"real": folder, "problem": f"{folder} cannot be made: {error.strerror}"}
    return {"real": folder}


def _not_mounted(real: str, shown: str, kind: str) -> str | None:
    """Why a folder is not in a file system of this kind: the site's mount may be missing."""
    found = ("", "")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.split()
            point = words[4].replace("\\040", " ")
            if f"{real}/".startswith(f"{point.rstrip('/')}/") and len(point) >= len(found[0]):
                found = (point, words[words.index("-") + 1])
    if found[1] in KINDS[kind] or found[1].startswith("fuse"):
        return None
    return f"no {kind} file system is mounted at {shown}; ask the administrator of this machine to mount it"


if __name__ == "__main__":
    print(json.dumps(look(**json.load(sys.stdin))))
