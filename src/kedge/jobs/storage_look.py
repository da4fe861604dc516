"""Looks at the folders of storages. A program of its own, with one process for each folder: one in a file system whose
server is gone blocks, perhaps forever.

Reads {"seconds", "looks"} from stdin as JSON, each look with the keys of storage_folders.FolderLook, and prints what it
found for each, with keys of storage_folders.FolderState.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import stat
import sys
import time

_MOUNTS = "/proc/self/mountinfo"
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
    return {"real": inner, "problem": _unusable(inner, inner) or _foreign(real, sub)}


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


def _foreign(folder: str, sub: str) -> str | None:
    """Why a folder may be a trap: where everybody can make folders, another user may have made it beforehand."""
    for name in sub.split("/"):
        inner = os.path.join(folder, name)
        owner = os.lstat(inner).st_uid
        if os.lstat(folder).st_mode & stat.S_IWOTH and owner not in (0, os.getuid()):
            return f"{inner} belongs to another user (uid {owner}), and everybody can make folders in {folder}"
        folder = inner
    return None


def _made(folder: str) -> dict[str, object]:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        return {"real": folder, "problem": f"{folder} cannot be made: {error.strerror}"}
    return {"real": folder}


def _not_mounted(real: str, shown: str, kind: str) -> str | None:
    """Why a folder is not in a file system of this kind: the site's mount may be missing."""
    found = ("", "")
    if not os.path.exists(_MOUNTS):
        return None  # not Linux
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.split()
            point = words[4].replace("\\040", " ")
            if f"{real}/".startswith(f"{point.rstrip('/')}/") and len(point) >= len(found[0]):
                found = (point, words[words.index("-") + 1])
    if found[1] in KINDS[kind] or found[1].startswith("fuse"):
        return None
    return f"no {kind} file system is mounted at {shown}; ask the administrator of this machine to mount it"


def all_of(looks: list[dict[str, object]], seconds: float) -> list[dict[str, object]]:
    """What `look` returns for each, all at the same time. One that takes longer than `seconds` hangs."""
    found: list[dict[str, object]] = [{"real": each["folder"], "hangs": True} for each in looks]
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as waiting:
        for number, each in enumerate(looks):
            reader, pid = _started(each)
            waiting.register(reader, selectors.EVENT_READ, (number, pid))
        while waiting.get_map() and (ready := waiting.select(max(0.0, deadline - time.monotonic()))):
            for key, _ in ready:
                number, pid = key.data
                with open(key.fd, "rb", closefd=False) as answer:
                    found[number] = json.load(answer)
                waiting.unregister(key.fd)
        for key in waiting.get_map().values():
            os.kill(key.data[1], signal.SIGKILL)  # it may outlive that, so nobody waits for it
    return found


def _started(each: dict[str, object]) -> tuple[int, int]:
    """A pipe from which the result can be read, and the process that looks."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            found = look(**each)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            found = {"real": each["folder"], "problem": f"{each['folder']} cannot be used: {error}"}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    return reader, pid


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(all_of(given["looks"], given["seconds"])))
