"""Challenges of the header WWW-Authenticate (RFC 9110, section 11.6.1): how a server wants to be asked again.

A scanner of its own: the parsers of libraries come with HTTP stacks, which take longer to load than the init phase may
take.
"""

from __future__ import annotations

from kedge.light.types import Iterable, Iterator, NamedTuple

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BLANK = " \t"


class Challenge(NamedTuple):
    """One way to authenticate. The scheme and the names of its parameters are in lower case."""

    scheme: str
    parameters: dict[str, str]


def parse(headers: Iterable[str]) -> list[Challenge]:
    """The challenges of all these headers, in their order. ValueError: they do not follow the grammar."""
    found: list[Challenge] = []
    for item in (item for header in headers for item in _items(header)):
        scheme, blank, rest = _cut(item, _BLANK)
        if not _is_token(scheme) or rest.startswith("="):  # a parameter, perhaps with blanks before its '='
            if not found:
                raise ValueError("a parameter stands before the first scheme")
            _add_parameter(found[-1].parameters, item)
            continue
        found.append(Challenge(scheme.lower(), {}))
        if blank and not _is_token68(rest):
            _add_parameter(found[-1].parameters, rest)
    return found


def _items(header: str) -> Iterator[str]:
    """The parts between commas, except those commas that are in quotes; empty parts are skipped."""
    start, quoted, at = 0, False, 0
    while at < len(header):
        character = header[at]
        if character == '"':
            quoted = not quoted
        elif character == "\\" and quoted:
            at += 1
        elif character == "," and not quoted:
            yield from filter(None, [header[start:at].strip(_BLANK)])
            start = at + 1
        at += 1
    if quoted:
        raise ValueError("a quotation mark is not closed")
    yield from filter(None, [header[start:].strip(_BLANK)])


def _add_parameter(parameters: dict[str, str], text: str) -> None:
    """Add `name=value`. A name that is repeated keeps its first value."""
    name, equals, value = text.partition("=")
    name, value = name.strip(_BLANK).lower(), value.strip(_BLANK)
    if not equals or not _is_token(name):
        raise ValueError("a parameter is not written as name=value")
    parameters.setdefault(name, _unquoted(value))


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        if not value or any(character in '" \t' for character in value):  # addresses without quotes do occur
            raise ValueError("a value is neither a word nor in quotation marks")
        return value
    text, escaped = "", False
    for position, character in enumerate(value[1:], 2):
        if character == '"' and not escaped:
            if position != len(value):
                raise ValueError("something stands after the closing quotation mark")
            return text
        text += "" if character == "\\" and not escaped else character
        escaped = character == "\\" and not escaped
    raise ValueError("a quotation mark is not closed")


def _is_token68(text: str) -> bool:
    """Whether it is one word in place of parameters, as Negotiate has it."""
    return all(c in _TOKEN or c == "/" for c in text.rstrip("="))


def _is_token(text: str) -> bool:
    return bool(text) and _TOKEN.issuperset(text)


def _cut(text: str, separators: str) -> tuple[str, bool, str]:
    """What stands before the first separator, whether there is one, and the rest without separators around it."""
    at = min((found for s in separators if (found := text.find(s)) >= 0), default=len(text))
    return text[:at], at < len(text), text[at:].strip(separators)
