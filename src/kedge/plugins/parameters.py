"""The parameters of a plugin as a table of names, readers and defaults, and the function that reads values with it.

A reader is a function that returns a value in its proper type, or raises ParameterError. `string`, `text` and `boolean`
are readers; `integer`, `number`, `one_of`, `list_of` and `mapping_of` make readers. A value that came from a reference
is a string, so the readers of numbers and booleans accept strings too.
"""

from __future__ import annotations

import math

from kedge.contract import Text
from kedge.light.types import Any, Callable, Iterable, Mapping, NamedTuple

Reader = Callable[[object], Any]


class Wrong(NamedTuple):
    """One error in the parameters. `path` (names and indexes) leads to the wrong value, or to its name if `is_key`."""

    message: str
    path: tuple[str | int, ...] = ()
    is_key: bool = False


class ParameterError(Exception):
    """The plugin cannot use the parameters; `wrong` lists all errors."""

    def __init__(self, *wrong: Wrong | str) -> None:
        self.wrong = tuple(Wrong(item) if isinstance(item, str) else item for item in wrong)
        super().__init__("; ".join(item.message for item in self.wrong))


class Parameter(NamedTuple):
    """One parameter: its name, the reader of its values, its purpose, and its default."""

    name: str
    read: Reader
    description: str
    required: bool = False
    default: Any = None


def read(table: Iterable[Parameter], written: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every parameter in the table; null means the default. ParameterError lists all errors."""
    known = {parameter.name: parameter for parameter in table}
    values = {name: parameter.default for name, parameter in known.items()}
    meant = {name: _meant(name, known.keys() - written.keys()) for name in written if name not in known}
    wrong = [Wrong(_unknown(name, guess, known), (name,), is_key=True) for name, guess in meant.items()]
    for name, parameter in known.items():
        if written.get(name) is None:
            if parameter.required and name not in meant.values():
                wrong.append(Wrong(f"the parameter {name!r} is missing: {parameter.description}"))
            continue
        try:
            values[name] = parameter.read(written[name])
        except ParameterError as error:
            wrong += (item._replace(path=(name, *item.path)) for item in error.wrong)
    if wrong:
        raise ParameterError(*wrong)
    return values


def string(value: object) -> str:
    """A string that is known when the job is submitted, so it has no secrets."""
    if isinstance(value, tuple):
        raise ParameterError("must not contain a secret, because its value is needed when the job is submitted")
    if not isinstance(value, str):
        raise ParameterError(f"must be a string, not {describe(value)}")
    return value


def text(value: object) -> Text:
    """A string that may contain secrets."""
    return value if isinstance(value, tuple) else (string(value),)


def boolean(value: object) -> bool:
    """True or false; a string may be in upper or lower case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ParameterError(f"must be true or false, not {describe(value)}")


def integer(minimum: int | None = None, maximum: int | None = None) -> Reader:
    """A whole number between the limits."""
    return lambda value: _within(_number(value, int, "a whole number"), minimum, maximum)


def number(minimum: float | None = None, maximum: float | None = None) -> Reader:
    """A number between the limits."""
    return lambda value: _within(_number(value, float, "a number"), minimum, maximum)


def one_of(*choices: str) -> Reader:
    """One of these strings."""

    def choose(value: object) -> str:
        if (chosen := string(value)) not in choices:
            raise ParameterError(f"must be {' or '.join(map(repr, choices))}, not {describe(value)}")
        return chosen

    return choose


def list_of(reader: Reader, *, or_one: bool = False) -> Reader:
    """A list whose items `reader` reads, as a tuple. `or_one`: a single item counts as a list of one."""

    def each(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            if or_one:
                return (reader(value),)
            raise ParameterError(f"must be a list, not {describe(value)}")
        return tuple(_below(index, item, reader) for index, item in enumerate(value))

    return each


def mapping_of(reader: Reader) -> Reader:
    """A mapping whose values `reader` reads."""

    def each(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ParameterError(f"must be a mapping, not {describe(value)}")
        return {str(key): _below(str(key), item, reader) for key, item in value.items()}

    return each


def describe(value: object) -> str:
    """A value for a message; secrets are not shown, and long strings are cut."""
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:59]}…")
    kinds = {type(None): "empty", list: "a list", dict: "a mapping", tuple: "a string with a secret"}
    return kinds.get(type(value)) or (str(value).lower() if isinstance(value, bool) else f"the number {value!r:.60}")


def _below(step: str | int, value: object, reader: Reader) -> Any:
    try:
        return reader(value)
    except ParameterError as error:
        raise ParameterError(*(item._replace(path=(step, *item.path)) for item in error.wrong)) from error


def _number(value: Any, kind: type[int] | type[float], words: str) -> Any:
    known = isinstance(value, int | str if kind is int else int | float | str) and not isinstance(value, bool)
    try:
        result = kind(value) if known else None
    except ValueError:
        result = None
    if result is None or not math.isfinite(result):
        raise ParameterError(f"must be {words}, not {describe(value)}")
    return result


def _within(value: Any, minimum: float | None, maximum: float | None) -> Any:
    if minimum is not None and value < minimum:
        raise ParameterError(f"must be at least {minimum}, not {value}")
    if maximum is not None and value > maximum:
        raise ParameterError(f"must be at most {maximum}, not {value}")
    return value


def _meant(name: str, names: Iterable[str]) -> str | None:
    lower = {other.lower(): other for other in sorted(names)}
    import difflib  # slow to load, and needed only for an error

    found = difflib.get_close_matches(str(name).lower(), lower, n=1)
    return lower[found[0]] if found else None


def _unknown(name: str, guess: str | None, known: Iterable[str]) -> str:
    hint = f"did you mean {guess!r}?" if guess else f"known here: {', '.join(map(repr, known)) or 'none'}"
    return f"unknown parameter {name!r}; {hint}"
