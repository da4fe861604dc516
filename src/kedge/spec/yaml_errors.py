"""libyaml's messages in words that say what to do."""

from __future__ import annotations

import yaml

_INDENT = "the indentation does not fit what stands above; lines of one level must start in the same column"
_WORDS = {
    "mapping values are not allowed in this context": (
        "a ':' may not stand here; check the indentation, or put the value in quotes if it holds ': '"
    ),
    "did not find expected key": _INDENT,
    "did not find expected '-' indicator": _INDENT,
    "did not find expected <document start>": (
        "this does not continue what stands above; check the indentation, and that a space follows every ':'"
    ),
    "did not find expected ',' or ']'": "a ',' or the ']' that ends the list is missing before this",
    "did not find expected ',' or '}'": "a ',' or the '}' that ends the mapping is missing before this",
    "did not find expected node content": "a value is missing here, or the ']' or '}' that ends what stands above",
    "found invalid Unicode character escape code": (
        "this escape is no character; write one beyond U+FFFF as itself or like \\U0001F600"
    ),
    "found unknown escape character": "this escape does not exist; write \\\\ for a backslash, or use single quotes",
    "block sequence entries are not allowed in this context": "a list must start in a line of its own",
    "could not find expected ':'": "there is no ':' after this key",
    "found incompatible YAML document": "job files are YAML 1.2; remove this directive or write '%YAML 1.2'",
}
_TAB = "a tab may not stand in the indentation; use spaces"


def explain(error: yaml.YAMLError, text: str) -> tuple[str, int | None]:
    """What is wrong, and the offset in `text` where; None where the library does not say."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"this is not YAML: {error}", None
    mark = error.context_mark if error.problem == "found unexpected end of stream" else error.problem_mark
    offset = (mark or error.problem_mark).index
    return _words(error, text, offset), offset


def _words(error: yaml.MarkedYAMLError, text: str, offset: int) -> str:
    problem = error.problem or ""
    if problem == "found unexpected end of stream":
        return "this quote is never closed"
    if problem == "found character that cannot start any token":
        character = text[offset : offset + 1]
        return _TAB if character == "\t" else f"a value may not start with {character!r}; put it in quotes"
    started = f" ({error.context} from line {error.context_mark.line + 1})" if error.context_mark else ""
    return _WORDS.get(problem, f"this is not YAML: {problem}") + started
