"""Time limits that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.errors import Problem
from kedge.spec.model import JobFileSource, Path
from kedge.spec.tolerant import mapping
from kedge.spec.units import seconds

_KEDGE: Path = ("extras", "kedge")
_WARN = "warnBefore"
Limits = dict[Path, float]  # the seconds of limits by their paths


def time_limits(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """`warnBefore` must be shorter than every limit that it is for. A longer limit below a shorter one never passes."""
    settings = mapping(mapping(job.get("extras")).get("kedge"))
    whole = _found(settings, _KEDGE, "timeLimit")
    seen: set[Path] = set()
    warned = False
    for name in mapping(job.get("taskRoles")):
        path = (*_KEDGE, "taskRoles", name)
        own = mapping(mapping(settings.get("taskRoles")).get(name))
        attempt = _found(own, path, "attemptTimeLimit") or _found(settings, _KEDGE, "attemptTimeLimit")
        outer = [whole, _found(own, path, "timeLimit"), attempt]
        warned = warned or any(outer)
        early = _found(own, path, _WARN) or _found(settings, _KEDGE, _WARN)
        yield from _too_early(early, {at: sec for limits in outer for at, sec in limits.items()}, seen, source)
        yield from _never_reached(outer, seen, source)
        if _WARN in own and not any(outer):
            yield source.warning((*path, _WARN), _no_limit("the role has"), key=True)
    if _WARN in settings and not warned:
        yield source.warning((*_KEDGE, _WARN), _no_limit("the job has"), key=True)


def _no_limit(whose: str) -> str:
    return f"'warnBefore' has no effect, because {whose} no time limit; set 'timeLimit' or 'attemptTimeLimit'"


def _too_early(early: Limits, limits: Limits, seen: set[Path], source: JobFileSource) -> Iterator[Problem]:
    for path, sec in early.items():
        shortest = min(limits, key=lambda at: limits[at], default=None)
        if shortest and sec >= limits[shortest] and path not in seen:
            seen.add(path)
            text = f"'warnBefore' must be shorter than the time limit in line {source.mark(shortest).line}"
            yield source.problem(path, f"{text}, or the hooks would have to run before the command starts")


def _never_reached(outer: list[Limits], seen: set[Path], source: JobFileSource) -> Iterator[Problem]:
    """The limits from the outermost to the innermost: run, task, attempt."""
    for number, limits in enumerate(outer):
        for path, sec in limits.items():
            shorter = [at for others in outer[:number] for at, other in others.items() if other <= sec]
            if shorter and path not in seen:
                seen.add(path)
                line = source.mark(shorter[0]).line
                yield source.warning(
                    path, f"this limit never passes: the one in line {line} includes it and is not longer"
                )


def _found(settings: Mapping[str, Any], path: Path, key: str) -> Limits:
    """The seconds of a key at its path; nothing if it is missing or wrong."""
    value = settings.get(key)
    try:
        return {(*path, key): seconds(value)} if isinstance(value, str | int | float) else {}
    except ValueError:
        return {}
