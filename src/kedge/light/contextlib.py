"""contextlib.suppress."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import suppress as suppress
else:

    class suppress:  # noqa: N801  (as its model)
        def __init__(self, *errors):
            self._errors = errors

        def __enter__(self):
            return None

        def __exit__(self, kind, error, traceback):
            return kind is not None and issubclass(kind, self._errors)
