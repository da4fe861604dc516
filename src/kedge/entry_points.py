"""What installed packages add to kedge by entry points, and why one of these additions failed."""

from __future__ import annotations

import traceback
from functools import cache
from importlib.metadata import EntryPoint, entry_points


@cache
def by_name(group: str) -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of a group in all installed packages; read once in a process."""
    found: dict[str, dict[EntryPoint, None]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, {})[point] = None
    return {name: tuple(points) for name, points in found.items()}


def packages(points: tuple[EntryPoint, ...]) -> str:
    """The names of the packages that these entry points are from."""
    return " and ".join(sorted({point.dist.name if point.dist else "?" for point in points}))


def failure(error: BaseException) -> str:
    """The reason why a package's code failed and the place, in one line."""
    reason = f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": ")
    if isinstance(error, SystemExit):
        reason = f"it called sys.exit({error.code!r})"
    return f"{reason} ({_place(error)})"


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    # While a module is being imported, the last frames may belong to the import system.
    last = next((frame for frame in reversed(frames) if not frame.filename.startswith("<frozen")), frames[-1])
    return f"{last.filename}:{last.lineno}"
