"""Conditions over numbers, such as `total - own - free <= own`, parsed into nested lists and evaluated without `eval`.

The compiled form is JSON: a number, a name, or [operator, operand, ...].
"""

from __future__ import annotations

from operator import add, eq, ge, gt, le, lt, mul, ne, sub, truediv

from kedge.light.types import Any, Callable, Mapping

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    import ast

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": add, "Sub": sub, "Mult": mul, "Div": truediv,
    "Lt": lt, "LtE": le, "Gt": gt, "GtE": ge, "Eq": eq, "NotEq": ne,
}  # fmt: skip
UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse(text: str) -> Any:
    """The compiled form of a condition. ValueError if it contains anything that is not allowed."""
    import ast  # not while a task is diagnosed: only where rules are compiled

    try:
        return _compiled(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"not a condition: {text!r} ({error.msg})") from None


def names(compiled: Any) -> set[str]:
    """The names that a condition uses."""
    if isinstance(compiled, str):
        return {compiled}
    return {name for part in compiled[1:] for name in names(part)} if isinstance(compiled, list) else set()


def holds(compiled: Any, values: Mapping[str, float]) -> bool:
    """Whether a condition is true. A comparison that uses a name not in `values`, or divides by zero, is false."""
    operator, *operands = compiled
    if operator == "and":
        return all(holds(part, values) for part in operands)
    if operator == "or":
        return any(holds(part, values) for part in operands)
    if operator == "not":
        return not holds(operands[0], values)
    try:
        return bool(_value(compiled, values))
    except (KeyError, ZeroDivisionError):
        return False


def quantity(text: str) -> float | None:
    """Parse a quantity: `1.5 GiB` and `1.5GB` are bytes (both with powers of 1024, as frameworks print them), `12` is a
    plain number; None for other texts."""
    number = text.strip().replace(",", "")
    unit = number.lstrip("0123456789.").strip().lower()
    number = number[: len(number) - len(number.lstrip("0123456789."))]
    power = UNITS.get(unit.removesuffix("bytes").removesuffix("ib").removesuffix("b"))
    try:
        return None if power is None else float(number) * 1024.0**power
    except ValueError:
        return None


def _value(compiled: Any, values: Mapping[str, float]) -> Any:
    if isinstance(compiled, str):
        return values[compiled]
    if isinstance(compiled, list):
        return OPERATORS[compiled[0]](_value(compiled[1], values), _value(compiled[2], values))
    return compiled


def _compiled(node: ast.AST) -> Any:
    kind = type(node).__name__
    match node.__dict__:
        case {"op": op, "values": parts} if kind == "BoolOp":
            return [type(op).__name__.lower(), *map(_compiled, parts)]
        case {"op": op, "operand": part} if kind == "UnaryOp" and type(op).__name__ == "Not":
            return ["not", _compiled(part)]
        case {"left": left, "ops": [op], "comparators": [right]} if type(op).__name__ in OPERATORS:
            return [type(op).__name__, _compiled(left), _compiled(right)]
        case {"left": left, "op": op, "right": right} if type(op).__name__ in OPERATORS:
            return [type(op).__name__, _compiled(left), _compiled(right)]
        case {"id": str(name)}:
            return name
        case {"value": int() | float() as number} if kind == "Constant":
            return number
    raise ValueError("a condition may contain names, numbers, + - * /, one comparison, and, or, not")
