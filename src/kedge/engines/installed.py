"""Engines of installed packages, from the entry point group `kedge.engines`. Slow: it reads the metadata of
all packages, so the registry uses it only for names that are not built in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any

from kedge import entry_points
from kedge.engines.base import Engine, EngineOption
from kedge.errors import CannotRun, KedgeError

GROUP = "kedge.engines"
_MEMBERS = sorted(name for name in {*vars(Engine), *Engine.__annotations__} if not name.startswith("_"))
_SET_WHEN_MADE = "options"


def names() -> list[str]:
    """The names of all engines of installed packages."""
    return sorted(entry_points.by_name(GROUP))


def load(name: str) -> type[Engine] | None:
    """The class of an engine; None if no package has one of that name. CannotRun if it cannot be used."""
    points = entry_points.by_name(GROUP).get(name)
    if not points:
        return None
    if len({point.value for point in points}) > 1:
        packages = entry_points.packages(points)
        raise CannotRun(f"several packages have an engine {name}: {packages}; uninstall all but one")
    with _guarded(points, "cannot be loaded"):
        cls: type[Engine] = points[0].load()
    _check(points, cls)
    return cls


def make(name: str, cls: type[Engine], options: Mapping[str, Any]) -> Engine:
    """The engine with these options. CannotRun if it cannot be made."""
    points = entry_points.by_name(GROUP)[name]
    with _guarded(points, "cannot be created"):
        made = cls(**options)
    if not hasattr(made, _SET_WHEN_MADE):
        raise CannotRun(f"{_engine(points)} is incomplete: it has no {_SET_WHEN_MADE}")
    return made


def _check(points: tuple[EntryPoint, ...], cls: Any) -> None:
    """CannotRun if this is not the class of an engine, or has another name."""
    if not isinstance(cls, type):
        raise CannotRun(f"{_engine(points)} is not a class: {cls!r:.80}")
    if missing := [member for member in _MEMBERS if member != _SET_WHEN_MADE and not hasattr(cls, member)]:
        raise CannotRun(f"{_engine(points)} is incomplete: its class has no {', '.join(missing)}")
    accepts, name = getattr(cls, "accepts", None), getattr(cls, "name", None)
    if not isinstance(accepts, tuple) or not all(isinstance(option, EngineOption) for option in accepts):
        raise CannotRun(f"{_engine(points)}: its `accepts` must be a tuple of EngineOption")
    if name != points[0].name:
        raise CannotRun(f"{_engine(points)}: its class has another name, {name!r}")


def _engine(points: tuple[EntryPoint, ...]) -> str:
    return f"the engine {points[0].name} ({entry_points.packages(points)})"


@contextmanager
def _guarded(points: tuple[EntryPoint, ...], what: str) -> Iterator[None]:
    """A context that turns errors of other people's code into CannotRun, so that they do not look like kedge's bugs."""
    try:
        yield
    except (KedgeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise CannotRun(f"{_engine(points)} {what}: {entry_points.failure(error)}") from error
