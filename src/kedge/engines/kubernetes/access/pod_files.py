"""Copies a file or folder of this machine into the pod of a running task, by the runtime's own tar there."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Callable
from typing import IO

from kedge.contract import JOB_DIR, OUTPUT_DIR
from kedge.engines.base import TaskAttempt
from kedge.engines.kubernetes.access.exec import pod_of
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.objects import pod_paths
from kedge.engines.kubernetes.objects.task_pod import APP
from kedge.engines.kubernetes.transport.exec_stream import STDOUT
from kedge.errors import CannotRun, InputError
from kedge.runs.folder import Run
from kedge.terminal_text import one_line

BUSYBOX = f"{pod_paths.BUNDLE}/shell/busybox"
FOLDERS = {OUTPUT_DIR: pod_paths.OUTPUT, JOB_DIR: pod_paths.JOB_FOLDER}
# What a path is in a folder: an existing folder, a name in one, or neither.
_LOOK = 'cd "$1" && if [ -d "./$2" ]; then echo folder; elif [ -d "$("$0" dirname "./$2")" ]; then echo name; fi'
# The archive has this many bytes: many servers cannot end the input of a program.
_UNPACK = 'cd "$1/$2" && "$0" head -c "$3" | "$0" tar -x -f -'
_BLOCK = 1 << 20


def copy_in(
    run: Run, attempt: TaskAttempt, source: str, folder: str, path: str, progress: Callable[[int, int], None]
) -> tuple[int, int]:
    """Copy `source` to `path` in one of FOLDERS of a task, into it if it is a folder. Returns the number of files, and
    of their bytes. InputError: there is no such place; CannotRun: the task is not running."""
    if os.path.isabs(path) or ".." in path.split("/"):
        raise InputError(f"{one_line(path)} leads out of the folder that it is relative to")
    found, top = SubmittedRun(run), FOLDERS[folder]
    what = _said(found, attempt, ("sh", "-c", _LOOK, BUSYBOX, top, path)).strip()
    name, above = os.path.basename(os.path.abspath(source)), path
    if what == b"name" and not path.endswith("/"):
        above, _, name = path.rpartition("/")
    elif what != b"folder":
        raise InputError(f"{attempt.task}: there is no folder for {one_line(path)}")
    with tempfile.TemporaryFile() as packed:
        copied = _pack(source, name, packed)
        size = packed.tell()
        packed.seek(0)
        _said(
            found, attempt, ("sh", "-c", _UNPACK, BUSYBOX, top, above, str(size)), packed, lambda n: progress(n, size)
        )
    return copied


def _pack(source: str, name: str, packed: IO[bytes]) -> tuple[int, int]:
    """Write an archive of regular files, folders and links, for whoever unpacks it. Returns the number of files, and of
    their bytes."""
    count = content = 0

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal count, content
        count += member.isfile()
        content += member.size
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member if member.isfile() or member.isdir() or member.issym() else None

    try:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            archive.add(source, name, filter=plain)
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}") from error
    return count, content


def _said(
    found: SubmittedRun, attempt: TaskAttempt, words: tuple[str, ...], given: IO[bytes] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> bytes:  # fmt: skip
    """Run the runtime's busybox in the container of a task, and return what it prints. CannotRun."""
    said = {True: b"", False: b""}
    with found.api.exec(pod_of(found, attempt), APP, (BUSYBOX, *words), stdin=given is not None) as stream:
        sent = 0
        while given and (data := given.read(_BLOCK)):
            stream.write(data)
            sent += len(data)
            progress(sent)
        while frame := stream.read():
            said[frame.channel == STDOUT] += frame.data
    if stream.exit_code:
        why = one_line(said[False].decode(errors="replace").strip().rpartition("\n")[2])
        raise CannotRun(f"{attempt.task}: the files cannot be written: {why or f'exit code {stream.exit_code}'}")
    return said[True]
