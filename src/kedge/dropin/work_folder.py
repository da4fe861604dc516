"""The work folder of the init phase: a volume that it shares with the user's container. It is cleaned and gets the
runtime's tree from the image."""

from __future__ import annotations

import os

from kedge.dropin.init_log import InitLog
from kedge.file_copies import copy_content
from kedge.light import json
from kedge.light.types import Iterator
from kedge.own_files import clear

INIT_LOG = "init.log"
_PRELOG = "prelog_"
_PROGRAM, _DATA = 0o755, 0o644
_MANIFEST = "MANIFEST.json"
_EVERYBODYS = 0o777  # the user's container may run as any user
BUNDLE = "kedge"  # in the tree
_ONLY_INIT = frozenset({"init", "shell"})  # layers of the bundle, see kedge.bundle.layers
_KEPT = frozenset({"logs", "user-extension-secrets"})
_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}  # of mountinfo, proc_pid_mountinfo(5)


def prepare_logs(folder: str) -> str | None:
    """Make the folder of the logs, for every user. What it holds besides init.log is from before a restart of the
    container and is moved to a folder of its own, which is returned. OSError if that fails.

    Other containers of the same role can write to the folder above: a link there must not lead to another folder."""
    if os.path.islink(folder):
        clear(folder)
    os.makedirs(folder, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(opened, _EVERYBODYS)
    finally:
        os.close(opened)
    earlier = [name for name in os.listdir(folder) if name != INIT_LOG and not name.startswith(_PRELOG)]
    if not earlier:
        return None
    target = f"{folder}/{_PRELOG}{os.urandom(4).hex()}"
    os.mkdir(target)
    os.chmod(target, _EVERYBODYS)
    for name in earlier:
        os.rename(f"{folder}/{name}", f"{target}/{name}")
    return target


def clean(work: str, log: InitLog) -> None:
    """Delete everything in the work folder except logs, and what is mounted there: those are other volumes, such as
    secrets, and mostly read-only."""
    os.makedirs(work, exist_ok=True)
    mounts = list(_mounts(os.path.realpath(work)))
    for name in os.listdir(work):
        if name in _KEPT:
            continue
        inside = [mount for mount in mounts if mount == name or mount.startswith(f"{name}/")]
        try:
            _clear_around(work, name, inside)
        except OSError as error:
            log.warning(f"{error.filename or f'{work}/{name}'} cannot be deleted: {error.strerror}")


def _clear_around(folder: str, name: str, mounts: list[str]) -> None:
    """Delete an entry of a folder, but nothing of what is mounted in it. `mounts` are relative to the folder."""
    if not mounts:
        clear(f"{folder}/{name}")
    elif name not in mounts:
        for each in os.listdir(f"{folder}/{name}"):
            inside = [mount.partition("/")[2] for mount in mounts]
            below = [mount for mount in inside if mount == each or mount.startswith(f"{each}/")]
            _clear_around(f"{folder}/{name}", each, below)


def _mounts(folder: str) -> Iterator[str]:
    """What is mounted below a folder, as paths relative to it."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                path = line.split(" ", 5)[4]
                if "\\" in path:
                    for escape, character in _ESCAPES.items():
                        path = path.replace(escape, character)
                if path.startswith(f"{folder}/"):
                    yield path[len(folder) + 1 :]
    except OSError:
        return  # no /proc: a mounted volume then gives a warning


def fill(tree: str, work: str) -> None:
    """Copy the runtime's tree into the work folder, without the parts of the bundle that only the init phase uses.
    OSError if that fails. The umask is 022."""
    for name in os.listdir(tree):
        if name == BUNDLE:
            _copy_bundle(f"{tree}/{name}", f"{work}/{name}")
        else:
            _copy(f"{tree}/{name}", f"{work}/{name}")


def _copy_bundle(source: str, target: str) -> None:
    """Copy a bundle. It comes into its place complete, because a container may be killed meanwhile."""
    partial = f"{target}.partial"
    clear(partial)
    os.mkdir(partial, _PROGRAM)
    with open(f"{source}/{_MANIFEST}", "rb") as file:
        manifest = file.read()
    with open(f"{partial}/{_MANIFEST}", "wb") as file:
        file.write(manifest)
    folders = {""}
    for each in json.loads(manifest)["files"]:
        if each["layer"] not in _ONLY_INIT:
            path: str = each["path"]
            folder = path.rpartition("/")[0]
            if folder not in folders:
                os.makedirs(f"{partial}/{folder}", _PROGRAM, exist_ok=True)
                folders.add(folder)
            _send(f"{source}/{path}", f"{partial}/{path}", _PROGRAM if each["program"] else _DATA, each["size"])
    clear(target)
    os.rename(partial, target)


def _send(source: str, target: str, mode: int, size: int) -> None:
    """Copy a file whose size is known to a new one, with as few calls as possible: there are hundreds. The umask is
    022."""
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    write = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    while size:
        sent = os.sendfile(write, read, None, size)
        if not sent:
            raise OSError(f"{source} is shorter than its manifest states")
        size -= sent
    os.close(write)
    os.close(read)


def _copy(source: str, target: str) -> None:
    """Copy a file or a folder. Links stay links. Permissions are kept, owners are not."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
        with os.scandir(source) as entries:
            for entry in entries:
                _copy(entry.path, f"{target}/{entry.name}")
        os.chmod(target, os.stat(source).st_mode & 0o7777)
    else:
        copy_file(source, target)


def copy_file(source: str, target: str) -> None:
    """Copy a file's content and permissions. OSError if that fails."""
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        mode = os.fstat(read).st_mode & 0o777
        write = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            for _ in copy_content(read, write):
                pass
            os.fchmod(write, mode)  # whatever the umask is
        finally:
            os.close(write)
    finally:
        os.close(read)


def make_executable(folder: str) -> None:
    """Make scripts executable that have lost their mode on the way into the image: those with `#!` in their first
    line."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file() and not os.access(entry.path, os.X_OK):
                with open(entry.path, "rb") as file:
                    if file.read(2) == b"#!":
                        os.chmod(entry.path, _PROGRAM)
