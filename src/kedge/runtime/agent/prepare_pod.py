"""Prepares the pod of a task, in its init container:

    prepare-pod [--code NAME [--shares-code]]

It copies what the task's container needs of the bundle to the volume that they share, and makes there the folders, the
FIFOs and the entry `runtime` that a task in a container has. With NAME it unpacks this folder of the job's code.
"""

from __future__ import annotations

import json
import os
import sys

from kedge.file_copies import copy_content
from kedge.light.contextlib import suppress
from kedge.light.types import NamedTuple, NoReturn, Sequence
from kedge.link import pod_folders
from kedge.own_files import clear
from kedge.runtime.agent import pod_code

USAGE = "usage: prepare-pod [--code NAME [--shares-code]]"
# What a task's container never starts: the init phase of other pods, the controller, its client of Kubernetes.
_NOT_NEEDED = frozenset({"init", "driver"})
_MANIFEST = "MANIFEST.json"
_ENTRY = f'#!/bin/sh\nexec {pod_folders.BUNDLE}/runtime "$@"\n'.encode()
_OWN, _OPEN, _FIFO = 0o755, 0o777, 0o666  # the task may run as any user of its image
_TERMINATION_LOG = "/dev/termination-log"  # what the cluster shows of a container's end
_FAILED = 1


class PrepareOptions(NamedTuple):
    """The parsed command line. `root` stands before all paths, in tests, and `bundle` is the bundle's folder."""

    code: str = ""
    shares_code: bool = False
    root: str = ""
    bundle: str = ""


def launch() -> NoReturn:
    """Prepare the pod and exit."""
    os._exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Prepare the pod; 1 after an error, which is told to the cluster."""
    os.umask(0o022)
    try:
        options = _parse(argv)
        _install(options.bundle, options.root + pod_folders.BUNDLE)
        _lay_out(options.root)
        if options.code:
            pieces = options.root + pod_folders.CODE_PIECES
            pod_code.install(options.root, pieces, options.code, shared=options.shares_code)
    except (ValueError, KeyError, pod_code.CodeDamaged) as error:
        return _failed(str(error))
    except OSError as error:
        where = f"{error.filename2 or error.filename}: " if error.filename else ""
        return _failed(f"the pod of the task cannot be prepared: {where}{error.strerror}")
    return 0


def _parse(argv: Sequence[str]) -> PrepareOptions:
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0]))))  # it is site/kedge/… there
    values, shares_code, left = {"--code": "", "--root": "", "--bundle": own}, False, list(argv)
    while left:
        name = left.pop(0)
        if name == "--shares-code":
            shares_code = True
        elif name in values and left:
            values[name] = left.pop(0)
        else:
            raise ValueError(USAGE)
    return PrepareOptions(values["--code"], shares_code, values["--root"], values["--bundle"])


def _install(bundle: str, target: str) -> None:
    """Copy the bundle without what a task does not need, in one step."""
    with open(f"{bundle}/{_MANIFEST}", "rb") as file:
        paths = [each["path"] for each in json.load(file)["files"] if each["layer"] not in _NOT_NEEDED]
    partial = f"{target}.partial"
    clear(partial)
    for folder in sorted({os.path.dirname(path) for path in paths}):
        os.makedirs(f"{partial}/{folder}", exist_ok=True)
    for path in (_MANIFEST, *paths):
        _copy(f"{bundle}/{path}", f"{partial}/{path}")
    clear(target)
    os.rename(partial, target)


def _copy(source: str, target: str) -> None:
    inner = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    outer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, os.fstat(inner).st_mode & 0o777)
    for _ in copy_content(inner, outer):
        continue
    os.close(inner)
    os.close(outer)


def _lay_out(root: str) -> None:
    """Make the folders of a task as its container sees them, mount points included. The volume may have been prepared
    before, by a container that was started again."""
    for folder in (pod_folders.SHARED, pod_folders.LOGS):
        _make(root + folder, _OWN)
    for folder in (pod_folders.OUTPUT, pod_folders.JOB_FOLDER, pod_folders.SCRIPTS, *pod_folders.OPEN_FOLDERS):
        _make(root + folder, _OPEN)
    _make(root + pod_folders.SECRETS, _OPEN)
    for path in (pod_folders.STATUS, pod_folders.CONTROL):
        with suppress(FileExistsError):
            os.mkfifo(root + path)
            os.chmod(root + path, _FIFO)
    with open(f"{root}{pod_folders.PAI}/runtime", "wb") as file:
        file.write(_ENTRY)
        os.fchmod(file.fileno(), _OWN)


def _make(path: str, mode: int) -> None:
    os.makedirs(path, exist_ok=True)
    with suppress(PermissionError):  # it is another volume's, whose owner has set its mode
        os.chmod(path, mode)


def _failed(why: str) -> int:
    """Tell the user where the cluster shows it: in the container's log and in its termination message."""
    for path in ("/dev/stderr", _TERMINATION_LOG):
        with suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.write(fd, f"kedge: {why}\n".encode(errors="replace"))
            os.close(fd)
    return _FAILED
