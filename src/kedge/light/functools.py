"""functools.cache for functions with positional arguments, and functools.cached_property."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import cache as cache
    from functools import cached_property as cached_property
else:

    def cache(function):
        known = {}

        def cached(*arguments):
            if arguments not in known:
                known[arguments] = function(*arguments)
            return known[arguments]

        cached.cache_clear = known.clear
        return cached

    class cached_property:  # noqa: N801  (as its model)
        def __init__(self, function):
            self._function = function

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._function(instance)
            return value
