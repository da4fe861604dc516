"""`dataclass(slots=True)` of the standard library, defined in a tenth of the time.

The standard library compiles six functions for every class, 2 ms on a slow machine; the forty classes that `kedge
validate` loads took a fifth of its time. Here all classes share these functions, except for `__init__`, which is
compiled when the first value is made. Everything else, such as `fields` and `replace`, works on both.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # to type checkers it is the same
else:
    import dataclasses
    from dataclasses import MISSING, FrozenInstanceError, fields

    def dataclass(*, slots, frozen=False, eq=True):
        """The decorator; other options are not supported."""
        assert slots, "the classes of the standard library do without"
        shared = {"__repr__": _repr}
        if eq:
            shared |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        if frozen:
            shared |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
            shared |= {"__getstate__": _values, "__setstate__": _restore}

        def decorate(cls):
            for name in shared.keys() - vars(cls).keys():
                setattr(cls, name, shared[name])
            assert "__post_init__" not in vars(cls), "it would not be called"
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
            assert all(field.init and field.compare and not field.kw_only for field in fields(made)), "not supported"
            made.__init__ = _compiled_when_called(made, frozen)
            return made

        return decorate

    def _compiled_when_called(cls, frozen):
        def init(self, /, *args, **keywords):
            cls.__init__ = _compiled_init(cls, frozen)
            cls.__init__(self, *args, **keywords)

        return init

    def _compiled_init(cls, frozen):
        known = {"_set": object.__setattr__, "_MISSING": MISSING}
        parameters, lines = [], []
        for field in fields(cls):
            name, value, default = field.name, field.name, f"_default_{field.name}"
            parameter = name
            if field.default is not MISSING:
                known[default], parameter = field.default, f"{name}={default}"
            elif field.default_factory is not MISSING:
                known[default], parameter = field.default_factory, f"{name}=_MISSING"
                value = f"{default}() if {name} is _MISSING else {name}"
            parameters.append(parameter)
            lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
        exec("\n".join([f"def __init__(self, {', '.join(parameters)}):", *lines]), known)  # noqa: S102  as dataclasses does
        known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        return known["__init__"]

    def _values(self):
        return [getattr(self, name) for name in self.__match_args__]

    def _restore(self, values):
        for name, value in zip(self.__match_args__, values, strict=True):
            object.__setattr__(self, name, value)

    def _repr(self):
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
        return f"{type(self).__qualname__}({shown})"

    def _eq(self, other):
        return _values(self) == _values(other) if type(other) is type(self) else NotImplemented

    def _hash(self):
        return hash(tuple(_values(self)))

    def _refuse_set(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
