"""Looks at the folders of storages, in a child with a deadline: a file system whose server is gone blocks any process
that asks about it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kedge import programs
from kedge.errors import CannotRun

_PROGRAM = Path(__file__).with_name("storage_look.py")
LOOK_SEC = 5.0  # for all folders together; one that takes longer has a dead server behind it
_PATIENCE_SEC = 5.0  # for the start of the program, on a busy machine


class FolderLook(NamedTuple):
    """One folder to look at: the folder `sub` in `folder`, which is made if it is missing and `make` is true. `kind`:
    `folder` must be in a file system of this kind, `nfs` or `cifs`."""

    folder: str
    sub: str = ""
    make: bool = False
    kind: str = ""


class FolderState(NamedTuple):
    """What there is: `real` is the path without links. `problem`: why it cannot be used; `hangs`: it does not answer.
    `missing`: there is no folder `sub` yet."""

    real: str
    problem: str | None = None
    missing: bool = False
    hangs: bool = False


class Folders:
    """What is known of folders. Each is looked at once, several at the same time."""

    def __init__(self) -> None:
        self._known: dict[FolderLook, FolderState] = {}

    def look(self, looks: Iterable[FolderLook]) -> None:
        """Look at these folders, at all that are not known yet at once. CannotRun: the child cannot run."""
        new = [look for look in dict.fromkeys(looks) if look not in self._known]
        if new:
            self._known.update(zip(new, _asked(new), strict=True))

    def of(self, look: FolderLook) -> FolderState:
        """What there is. The errors of `look`."""
        self.look([look])
        return self._known[look]


def _asked(looks: list[FolderLook]) -> list[FolderState]:
    request: dict[str, Any] = {"seconds": LOOK_SEC, "looks": [look._asdict() for look in looks]}
    try:
        argv = [sys.executable, "-I", "-S", str(_PROGRAM)]
        end = programs.run(argv, LOOK_SEC + _PATIENCE_SEC, json.dumps(request).encode())
    except (OSError, programs.TookTooLong) as error:
        raise CannotRun(f"the folders of storages cannot be looked at: {error or 'it took too long'}") from None
    if end.code:
        reason = end.err.decode(errors="replace").strip()[-200:]
        raise CannotRun(f"the folders of storages cannot be looked at: {reason}")
    return [FolderState(**found) for found in json.loads(end.out)]
