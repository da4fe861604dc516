"""Which runs in clusters use a bundle, noted beside it: their folders are wherever $XDG_STATE_HOME was when they
were submitted, and no lock tells of a job that still waits."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kedge.own_files import replace_file

_UNSEEN_SEC = 90 * 86_400.0  # a run whose folder may be visible on other machines only counts as ended after that


def note(bundle: Path, run: Path) -> None:
    """Note that the run with this folder uses a bundle. The caller holds the bundle's lock. OSError."""
    folder = _folder(bundle)
    folder.mkdir(exist_ok=True)
    replace_file(folder / hashlib.sha256(os.fsencode(run)).hexdigest()[:32], os.fsencode(run), synced=False)


def is_used(bundle: Path, has_ended: Callable[[Path], bool]) -> bool:
    """Whether a run uses a bundle that has not ended, as `has_ended` says of its folder. Forgets the others."""
    used = False
    for file in list(_folder(bundle).glob("[0-9a-f]*")):
        if _is_over(file, has_ended):
            file.unlink(missing_ok=True)
        else:
            used = True
    with suppress(OSError):  # there is none, or not all of them have ended
        _folder(bundle).rmdir()
    return used


def _folder(bundle: Path) -> Path:
    return bundle.with_name(f"{bundle.name}.uses")


def _is_over(file: Path, has_ended: Callable[[Path], bool]) -> bool:
    try:
        run = Path(os.fsdecode(file.read_bytes()))
        noted = file.stat().st_mtime
    except OSError:
        return False
    if run.exists():
        return has_ended(run)
    return run.parent.exists() or time.time() - noted > _UNSEEN_SEC
