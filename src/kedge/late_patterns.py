"""Regular expressions that are compiled when they are first used: compiling those that a command does not need took a
tenth of its time."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any, AnyStr

_compile: Any = None  # re.compile, which compiled_late replaces


class _LatePattern:
    """Has every attribute of the compiled pattern, and keeps those that were used."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(_compiler()(self.pattern, self._flags), name)  # `re` keeps the compiled pattern
        setattr(self, name, found)
        return found


def _compiler() -> Any:
    global _compile
    if _compile is None:
        import re  # many programs need no pattern at all

        _compile = re.compile
    return _compile


def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` returns, for its methods; the functions of `re` do not take it."""
    return _LatePattern(pattern, flags)  # type: ignore[return-value]


class compiled_late:  # noqa: N801  (used like a function)
    """A context for the import of a package whose patterns are seldom used: in it, `re.compile` is `late_pattern`."""

    def __enter__(self) -> None:
        import re

        self._compile_now = _compiler()
        re.compile = late_pattern  # type: ignore[assignment]

    def __exit__(self, *error: object) -> None:
        import re

        re.compile = self._compile_now
