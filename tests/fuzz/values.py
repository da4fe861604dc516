"""Values that fuzz tests put into files, and checks of the errors that result."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from kedge.errors import ERROR, InputError, Problem, Unreachable

# Pieces of YAML, JSON and TOML, and words that kedge knows; random characters rarely form any of them.
PIECES = [
    "\n",
    "\n  ",
    "\n- ",
    "- ",
    ": ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "<<: ",
    "'",
    '"',
    "'''",
    '"""',
    "|",
    ">-",
    "#",
    "!!int ",
    "!!binary ",
    "!!float ",
    "!!python/object:os.system ",
    "%",
    "%YAML 9.9\n",
    "---\n",
    "...\n",
    "=",
    "[[a]]",
    "<% ",
    " %>",
    "<% $secrets.s %>",
    "<% $parameters.x %>",
    "<% this.x %>",
    "{{ n }}",
    "${{ x }}",
    "~",
    "1.5",
    "true",
    ".nan",
    ".inf",
    "-.inf",
    "1e999",
    "0o17",
    "0x" + "f" * 900,
    "9" * 5000,
    "1" * 10_001,
    "2026-02-30",
    "12:30:45",
    "\t",
    "\r",
    "\0",
    "\x1b[31m",
    "\u2028",
    "\ufeff",
    "\x85",
    "\\ud800",
    "\\u0000",
    "\\x00",
    "\U0010ffff",
    "\ud800",
    "[" * 150,
    "{a: " * 150,
    "[" * 20_000,
    "- " * 20_000,
    '{"a":' * 5_000,
    "(" * 2_000,
    "a" * 5_000,
    "../",
    "http://[::1/",
]
pieces = st.sampled_from(PIECES) | st.text(max_size=3)
edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), pieces), min_size=1, max_size=4)


def edited(text: str, changes: Iterable[tuple[float, int, str]]) -> str:
    """The text with each piece inserted at a position, replacing a number of characters."""
    for place, removed, piece in changes:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + removed :]
    return text


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


TEXTS = [
    "",
    " ",
    "a",
    "w",
    "<% $parameters.x %>",
    "<% $secrets.s %>",
    "<% $parameters.x",
    "<% this.name %>",
    "{{ n }}",
    "4GB",
    "-1",
    "../x",
    "./x.yaml",
    "/dev/zero",
    "http://[::1/x",
    "http://..../",
    "https://xn--a/",
    "marketplace://name/%ff",
    "a\nb",
    "\x1b[2J",
    "\u2028",
    "\ud800",
    "\udcff",
    "\0",
    "x" * 5000,
    "'",
    "\\",
    "$PAI_PORT_LIST_w_9_x",
    "9" * 5000,
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.sampled_from([0, -1, 2**63, 10**400, float("inf"), float("-inf"), float("nan"), 1e308, 5e-324]),
    st.floats(),
    st.sampled_from(TEXTS) | st.text(max_size=4),
)
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
) | st.sampled_from([lambda: _deep(90), lambda: _deep(400), lambda: {"a": _deep(40)}]).map(lambda make: make())
DELETED = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node below a value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for step, below in steps for place in [(*path, step), *places(below, (*path, step))]]


def changes_of(value: Any) -> st.SearchStrategy[list[tuple[tuple[Any, ...], Any]]]:
    """Replacements of some nodes of a value with anything."""
    return st.lists(st.tuples(st.sampled_from(places(value)), junk | st.just(DELETED)), min_size=1, max_size=3)


def replaced(value: Any, changes: Iterable[tuple[tuple[Any, ...], Any]]) -> Any:
    """A copy with those changes; a change whose place was removed by an earlier one is skipped."""
    value = copy.deepcopy(value)
    for path, new in changes:
        try:
            node = value
            for step in path[:-1]:
                node = node[step]
            if new is DELETED:
                del node[path[-1]]
            else:
                node[path[-1]] = new
        except (KeyError, IndexError, TypeError):
            continue
    return value


def as_json(value: Any) -> str:
    """JSON extended by the numbers that only YAML has."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return text.replace(": NaN", ": .nan").replace(": -Infinity", ": -.inf").replace(": Infinity", ": .inf")


def check_error(error: InputError | Unreachable, text: str = "", file: str | None = None) -> None:
    """The error has messages of one printable line each, at places that exist in the text."""
    assert error.problems
    assert any(isinstance(problem, str) or problem.severity == ERROR for problem in error.problems)
    check_problems(error.problems, text, file)


def check_problems(problems: Iterable[Problem | str], text: str = "", file: str | None = None) -> None:
    """Like `check_error`, for warnings."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for problem in problems:
        assert str(problem).strip()
        if not isinstance(problem, Problem):
            continue
        json.dumps(problem.to_json(), ensure_ascii=False).encode()
        assert problem.message
        assert "\n" not in problem.message or "has changed" in problem.message
        if problem.file == file and problem.line:
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1].removeprefix("\ufeff")) + 1
