"""Rewrites libyaml's messages so that they name what to do."""

from __future__ import annotations

from kedge.spec.libyaml import yaml

_INDENT = "the indentation does not match the lines above; lines of one level must start in the same column"
_MESSAGES = {
    "mapping values are not allowed in this context": (
        "a ':' is not allowed here; check the indentation, or put the value in quotes if it contains ': '"
    ),
    "did not find expected key": _INDENT,
    "did not find expected '-' indicator": _INDENT,
    "did not find expected <document start>": (
        "this does not continue the lines above; check the indentation, and that a space follows every ':'"
    ),
    "did not find expected ',' or ']'": "a ',' or the ']' that ends the list is missing before this",
    "did not find expected ',' or '}'": "a ',' or the '}' that ends the mapping is missing before this",
    "did not find expected node content": "a value is missing here, or a ']' or '}' that ends the lines above",
    "found invalid Unicode character escape code": (
        "this escape is not a character; write characters beyond U+FFFF directly or like \\U0001F600"
    ),
    "found unknown escape character": "this escape does not exist; write \\\\ for a backslash, or use single quotes",
    "block sequence entries are not allowed in this context": "a list must start on a line of its own",
    "could not find expected ':'": "a ':' is missing after this key",
    "found incompatible YAML document": "job files are YAML 1.2; remove this directive or write '%YAML 1.2'",
}
_NO_BREAK = "\xa0"
_TAB = "tabs are not allowed in indentation; use spaces"


def explain(error: yaml.YAMLError, text: str) -> tuple[str, int | None]:
    """The message for an error, and its offset in `text`; None if libyaml does not give one."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"this is not YAML: {error}", None
    mark = error.context_mark if error.problem == "found unexpected end of stream" else error.problem_mark
    offset = (mark or error.problem_mark).index
    start = error.context_mark.index if error.context_mark else offset
    return _message(error, text, offset) + _no_break_space(text, start, offset), offset


def _no_break_space(text: str, start: int, end: int) -> str:
    """Looks like a space and is none for YAML: a note about the first one in the lines around an error."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    found = text.find(_NO_BREAK, first, last if last >= 0 else len(text))
    if found < 0:
        return ""
    line = text.count("\n", 0, found) + 1
    return f"; line {line} has a no-break space (U+00A0), as copied from web pages: replace it with a space"


def _message(error: yaml.MarkedYAMLError, text: str, offset: int) -> str:
    problem = error.problem or ""
    if problem == "found unexpected end of stream":
        return "this quote is never closed"
    if problem == "found character that cannot start any token":
        character = text[offset : offset + 1]
        return _TAB if character == "\t" else f"a value must not start with {character!r}; put it in quotes"
    started = f" ({error.context} from line {error.context_mark.line + 1})" if error.context_mark else ""
    return _MESSAGES.get(problem, f"this is not YAML: {problem}") + started
