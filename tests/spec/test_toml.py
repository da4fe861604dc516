"""TOML with positions: every value and key of any text has its place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.errors import InputError
from kedge.spec import toml
from kedge.spec.model import Path

EVERYTHING = '''\
# a comment = 1
top = "a # text"   # and a comment
"quoted . key" . 'other "one"' = 'C:\\dir'
dotted.key.deep = 1979-05-27 07:32:00

[ table . "with a [bracket]" ]
many = [ 1, 2.5, # not ] the end
  [ "in, ner", 'x' ], ] # done
long = """
He said "hi"\\
 [not.a.table]
ending in quotes"""""
raw = \'\'\'it's
[no] = "header"\'\'\'
inline = { a = 1, "b.c" = [ { d = true } ], e.f = "\\"}\\"" }

[[list]]
name = "first"
[list.below]
x = 1
[[list]]
name = "second"
[list.below]
x = 2
[[list.inner]]
y = 3
'''


def paths(value: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below a value, by its path."""
    if above:
        yield above, value
    for step, below in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from paths(below, (*above, step))


def assert_every_value_has_its_place(text: str) -> None:
    document = toml.read(text, "x.toml")
    assert document.value == tomllib.loads(text)
    for path, value in paths(document.value):
        mark = document.source.marks[path]
        if isinstance(value, dict) and not (mark.scalar or "").startswith("{"):
            continue  # the place of a table is that of its name
        if isinstance(value, list) and not (mark.scalar or "").startswith("["):
            continue
        assert tomllib.loads(f"x = {mark.scalar}")["x"] == value, path
        assert text.split("\n")[mark.line - 1][mark.column - 1 :].startswith((mark.scalar or "").split("\n")[0])
    for path, mark in document.source.key_marks.items():
        assert next(iter(tomllib.loads(f"{mark.scalar} = 0"))) == next(s for s in reversed(path) if isinstance(s, str))
    named = {path for path, _ in paths(document.value) if isinstance(path[-1], str)}
    assert named == set(document.source.key_marks)


def test_every_value_of_every_kind_has_its_place() -> None:
    assert_every_value_has_its_place(EVERYTHING)
    assert_every_value_has_its_place("")


def test_places_count_lines_and_columns_from_one() -> None:
    source = toml.read(EVERYTHING, "x.toml").source
    found = source.problem(("list", 1, "below", "x"), "is wrong")
    assert str(found).splitlines()[0] == "x.toml:24:5: list[1].below.x: is wrong"
    assert source.problem(("top",), "is unknown", key=True)[1:3] == (2, 1)


KEYS = st.one_of(st.sampled_from(["a", "b-c", "1"]), st.text(max_size=3))
SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.text(max_size=6))
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(KEYS, below, max_size=3)),
    max_leaves=8,
)


def quoted(text: str, quotes: str = '"') -> str:
    return (
        quotes + "".join(f"\\U{ord(c):08X}" if not c.isalnum() and c not in "#[]{},.='" else c for c in text) + quotes
    )


def written(value: Any, space: str) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{space}{quoted(k)}{space}={space}{written(v, space)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + "".join(f"{space}\n{written(each, space)}, # ]\n" for each in value) + "]"
    if isinstance(value, str):
        return quoted(value, '"""' if len(value) % 2 else '"')
    return str(value).lower()


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3), st.sampled_from(["", " ", "\t"]))
def test_every_value_of_any_text_has_its_place(tables: dict[str, Any], space: str) -> None:
    lines = []
    for name, table in tables.items():
        lines += [f"{space}[{space}{quoted(name)}{space}]"]
        lines += [
            f"{space}{quoted(key)}{space}={space}{written(value, space)}{space}# x = [" for key, value in table.items()
        ]
    assert_every_value_has_its_place("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = \n", "x.toml:2:5: this is not TOML: Invalid value"),
        ("a = 1\na = 2", "x.toml:2:6: this is not TOML: Cannot overwrite a value"),
        ("a = [1,", "x.toml:1:8: this is not TOML: Invalid value"),
        ("\n[a", "x.toml:2:3: this is not TOML: Expected ']' at the end of a table declaration"),
        ("a = " + "[" * 100_000, "x.toml: it is nested too deeply"),
        ("a = " + "1" * 10_000, "x.toml: Exceeds the limit"),
    ],
)
def test_what_is_not_toml_is_an_error_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        toml.read(text, "x.toml")
    assert str(error.value).startswith(message)
