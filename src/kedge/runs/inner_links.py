"""Links within a folder of a task. Absolute ones have the paths of the task, which may run in a container."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from kedge.beneath import LOOK, open_beneath
from kedge.contract import PAI_HOME
from kedge.runs.folder import Run
from kedge.runs.outputs import OutputFolder

_MOST_LINKS = 40  # as in the kernel


def roots(run: Run, folder: OutputFolder) -> tuple[str, ...]:
    """The absolute paths that a folder has for its tasks."""
    here = os.path.join(run.path, folder.path)
    return tuple(dict.fromkeys((here, os.path.realpath(here), f"{PAI_HOME}/{os.path.basename(folder.path)}")))


def below(text: str, known: Sequence[str]) -> str | None:
    """The path below one of the roots that an absolute link has; None if it leads elsewhere."""
    for root in known:
        if text == root or text.startswith(f"{root}/"):
            return text[len(root) :].strip("/")
    return None


def of_copy(text: str, known: Sequence[str], depth: int) -> str:
    """The text that a link, `depth` folders deep, has in a copy of its folder: one to a root becomes relative."""
    inner = below(text, known)
    return text if inner is None else "../" * depth + (inner or ".")


def leads_inside(text: str, depth: int) -> bool:
    """Whether a link with this text, `depth` folders deep, leads to a place inside, whatever other links do: no `..`
    may follow a name, which may be that of a link."""
    if text.startswith("/"):
        return False
    steps = [step for step in text.split("/") if step not in ("", ".")]
    up = next((number for number, step in enumerate(steps) if step != ".."), len(steps))
    return up <= depth and ".." not in steps[up:]


def open_inside(top: int, path: str, flags: int, known: Sequence[str]) -> int:
    """Open a path below an open folder that has these roots. OSError as from open_beneath."""
    for _ in range(_MOST_LINKS):
        try:
            return open_beneath(top, path, flags)
        except OSError as error:
            if error.errno != errno.EXDEV or (followed := _followed(top, path, known)) is None:
                raise
            path = followed
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _followed(top: int, path: str, known: Sequence[str]) -> str | None:
    """The path after its first absolute link that leads to a root has been followed; None if there is none."""
    parts = [part for part in path.split("/") if part]
    for number in range(len(parts)):
        text = _link(top, "/".join(parts[: number + 1]))
        if text is not None and (inner := below(text, known)) is not None:
            return "/".join([inner, *parts[number + 1 :]]).strip("/")
    return None


def _link(top: int, path: str) -> str | None:
    """The text of a link; None if it is none, or cannot be reached."""
    try:
        fd = open_beneath(top, path, LOOK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.readlink("", dir_fd=fd)
    except OSError:
        return None
    finally:
        os.close(fd)
