"""Reading and writing JSON by the C functions that `json` is built on, without its regular expressions. What is not
plain JSON is left to `json`, for its errors."""

from __future__ import annotations

from kedge.light.types import Any, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:

    def encode_basestring(text: str, /) -> str: ...
    def _encode(value: Any, level: int, /) -> tuple[str, ...]: ...
    def make_scanner(options: Decoder, /) -> Callable[[str, int], tuple[Any, int]]: ...

else:
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

    def _refuse(value):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")

    def _encode(value, level):
        holders = {}  # of what is being written; new for each value, because an error leaves them here
        write = make_encoder(holders, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True)
        return write(value, level)


_BLANK = " \t\n\r"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Decoder:
    """Reads JSON, with functions of one's own for the texts of numbers and of constants."""

    strict, object_hook, object_pairs_hook = True, None, None  # what the scanner looks up, besides the three below

    def __init__(
        self,
        parse_int: Callable[[str], Any] = int,
        parse_float: Callable[[str], Any] = float,
        parse_constant: Callable[[str], Any] = _CONSTANTS.__getitem__,
    ) -> None:
        self.parse_int, self.parse_float, self.parse_constant = parse_int, parse_float, parse_constant
        self._scan = make_scanner(self)

    def decode(self, data: str | bytes) -> Any:
        """The value that a text stands for. ValueError (JSONDecodeError) if it is not JSON."""
        try:
            text = data if isinstance(data, str) else data.decode("utf-8")
            value, end = self._scan(text, len(text) - len(text.lstrip(_BLANK)))
        except (StopIteration, UnicodeDecodeError, SystemError):  # the last one: the scanner misses json's own error
            return _explain(data)
        return _explain(data) if text[end:].strip(_BLANK) else value


loads = Decoder().decode


def dumps(value: Any) -> str:
    """The value on one line. TypeError for other values than those of JSON."""
    return "".join(_encode(value, 0)) if isinstance(value, dict | list | tuple) else "".join(_encode([value], 0))[1:-1]


def quoted(text: str) -> str:
    """The text as json.dumps(text, ensure_ascii=False) writes it."""
    return encode_basestring(text)


def indented(value: Any, margin: str = "\n") -> str:
    """The value as json.dumps(value, indent=1) writes it. Keys are texts."""
    inner = f"{margin} "
    if value and isinstance(value, dict):
        items = (f"{dumps(key)}: {indented(one, inner)}" for key, one in value.items())
        return f"{{{inner}{f',{inner}'.join(items)}{margin}}}"
    if value and isinstance(value, list | tuple):
        return f"[{inner}{f',{inner}'.join(indented(one, inner) for one in value)}{margin}]"
    return dumps(value)


def _explain(data: str | bytes) -> Any:
    """Let `json` raise its error, or read what it reads in other encodings."""
    import json

    return json.loads(data)
