"""NamedTuple without `typing` and `collections`, and the names that annotations need.

Making a class by typing.NamedTuple takes ten times as long as here, because it compiles a text for each.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from collections.abc import Callable as Callable
    from collections.abc import Collection as Collection
    from collections.abc import Container as Container
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from collections.abc import MutableMapping as MutableMapping
    from collections.abc import Sequence as Sequence
    from types import MappingProxyType as MappingProxyType
    from typing import Any as Any
    from typing import Generic as Generic
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
    from typing import TypeVar as TypeVar
else:
    # What collections.abc consists of; the interpreter has loaded it already.
    from _collections import _tuplegetter
    from _collections_abc import Callable, Collection, Container, Iterable, Iterator, Mapping, MutableMapping, Sequence  # noqa: F401

    Any = NoReturn = object
    MappingProxyType = type(type.__dict__)
    TypeVar = str

    class Protocol:
        pass

    class Generic:
        def __class_getitem__(cls, parameters):
            return cls

    class _TupleOfFields(type):
        """Makes the fields of a class, which are its annotations, the items of a tuple."""

        def __new__(meta, name, bases, body):
            annotations = body.get("__annotations__") or body.get("__annotate_func__", lambda _: {})(1)  # Python 3.14
            fields = tuple(annotations) if bases != (tuple,) else ()
            defaults = {field: body[field] for field in fields if field in body}
            items = {field: _tuplegetter(index, None) for index, field in enumerate(fields)}
            named = {"__slots__": (), "__match_args__": fields, "_fields": fields, "_field_defaults": defaults}
            named |= {"_last": tuple(defaults.values()), "_count": len(fields)}
            return super().__new__(meta, name, bases, {**body, **items, **named})

    _new_tuple = tuple.__new__

    class NamedTuple(tuple, metaclass=_TupleOfFields):
        def __new__(cls, *values, **named):
            if named or len(values) != cls._count:
                values = _completed(cls, values, named)
            return _new_tuple(cls, values)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **changes):
            return type(self)(**{**self._asdict(), **changes})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({fields})"

    def _completed(kind, values, named):
        missing = len(kind._fields) - len(values)
        if named or not 0 < missing <= len(kind._last):
            return _in_order(kind, values, named)
        return values + kind._last[-missing:]

    def _in_order(kind, values, named):
        """The values of all fields. TypeError, as for a function with these parameters."""
        first = dict(zip(kind._fields, values, strict=False))
        found = {**kind._field_defaults, **first, **named}
        wrong = [name for name in named if name in first or name not in kind._fields]
        if wrong or len(values) > len(first):
            raise TypeError(f"{kind.__name__} got unexpected or repeated values: {', '.join(wrong) or values}")
        if missing := [name for name in kind._fields if name not in found]:
            raise TypeError(f"{kind.__name__} is missing values: {', '.join(missing)}")
        return [found[name] for name in kind._fields]
