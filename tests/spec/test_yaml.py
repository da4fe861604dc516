from __future__ import annotations

import math
import subprocess
import sys

import pytest
import yaml as pyyaml

from kedge.errors import InputError
from kedge.spec.yaml import read


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(text, "f")
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0", 1.0),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("n", "n"),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("1e3", 1000.0),
        ("12e03", 12000.0),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("0o18", "0o18"),
        ("-0x1F", "-0x1F"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2021-02-01", "2021-02-01"),
        ("-12", -12),
        ("+.5", 0.5),
        ("1.", 1.0),
        (".", "."),
        ("-", None),
        ("~", None),
        ("null", None),
        ("", None),
        ("nULL", "nULL"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("inf", "inf"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 010", "010"),
        ("!!int '5'", 5),
        ("!!float 1", 1.0),
        ("! 5", "5"),
        ("|\n  1\n", "1\n"),
        ("٣", "٣"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    if text == "-":
        assert read("a:\n  -\n").value == {"a": [None]}
        return
    found = read(f"a: {text}").value["a"]
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(read("a: .nan").value["a"])


def test_marks_hold_positions_and_source_text() -> None:
    source = read("a: 1.0\nb:\n  - x\n  - {c: ~, d: 'q'}\n").source
    assert source.marks[("a",)].scalar == "1.0"
    places = {path: (mark.line, mark.column, mark.scalar) for path, mark in source.marks.items()}
    assert places[("b", 1, "d")] == (4, 15, "q")
    assert places[("b", 1, "c")] == (4, 9, "~")
    assert places[("b",)] == (3, 3, None)
    assert len(source.marks) == len(places) == 7
    keys = {path: (mark.line, mark.column) for path, mark in source.key_marks.items()}
    assert keys == {("a",): (1, 1), ("b",): (2, 1), ("b", 1, "c"): (4, 6), ("b", 1, "d"): (4, 12)}
    for missing in ((), ("b", 0), ("x",), ("b", 1, "x")):
        assert missing not in source.key_marks
    assert ("b", 2) not in source.marks


def test_marks_count_lines_with_any_line_ending() -> None:
    for end in ("\n", "\r\n", "\r"):
        mark = read(f"# é{end}a:{end}  b: x{end}").source.marks[("a", "b")]
        assert (mark.line, mark.column) == (3, 6)
    assert read("\ufeffa: 1").source.marks[("a",)].column == 4


def test_only_the_first_byte_order_mark_is_dropped() -> None:
    assert read("\ufeff\ufeffa: \ufeff1\n\ufeffb: x\ufeff").value == {"\ufeffa": "\ufeff1", "\ufeffb": "x\ufeff"}


def test_line_separators_of_unicode_are_ordinary_characters() -> None:
    source = read('a: "x\u2028\u2029\x85y"\nb: 1\n').source
    assert source.marks[("a",)].scalar == "x\u2028\u2029\x85y"
    assert source.marks[("b",)].line == 2


def test_aliases_and_merge_keys() -> None:
    text = "base: &b {x: 1, y: [2]}\none: *b\ntwo: {<<: *b, x: 3}\nthree: {<<: [{x: 5}, *b], z: 4}\n"
    document = read(text)
    assert document.problems == ()
    assert document.value == {
        "base": {"x": 1, "y": [2]},
        "one": {"x": 1, "y": [2]},
        "two": {"x": 3, "y": [2]},
        "three": {"z": 4, "x": 5, "y": [2]},
    }
    assert document.source.marks[("two", "y", 0)].line == 1
    assert document.source.key_marks[("two", "y")].line == 1
    assert document.source.key_marks[("two", "x")].line == 3


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    document = read("a: &a {'<<': 1, <<: {x: 2}}\nb: {<<: *a}\n")
    assert document.value == {"a": {"<<": 1, "x": 2}, "b": {"<<": 1, "x": 2}}
    assert document.problems == ()


def test_keys_are_strings() -> None:
    assert read("1: a\ntrue: b\n'': c\n010: d\n").value == {"1": "a", "true": "b", "": "c", "010": "d"}


def test_a_repeated_key_is_reported_with_both_lines_and_the_first_counts() -> None:
    document = read("a:\n  k: 1\n  'k': 2\nb: {1: x, '1': y}\n", "f")
    assert document.value == {"a": {"k": 1}, "b": {"1": "x"}}
    assert [str(p).splitlines()[0] for p in document.problems] == [
        "f:3:3: a.k: duplicate key 'k'; it is already in line 2",
        "f:4:11: b.1: duplicate key '1'; it is already in line 4",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !foo 1", "f:1:4: a: the tag '!foo' is not supported; remove it"),
        ("a: !!set {b}", "f:1:4: a: the tag 'tag:yaml.org,2002:set' is not supported; remove it"),
        ("a: !!int x", "f:1:4: a: this is not a value of type !!int; if it is text, put it in quotes"),
        ("a: " + "9" * 5000, "f:1:4: a: this is too long for a number; if it is text, put it in quotes"),
        ("a: {<<: 1}", "f:1:5: a.<<: '<<' takes a mapping or a list of mappings"),
        ("a: {<<: {b: 1}, <<: {}}", "f:1:17: a.<<: duplicate key '<<'"),
        ("? \n: b", "f:1:2: '': there is no key before this ':'"),
    ],
)
def test_some_errors_do_not_stop_the_reading(text: str, message: str) -> None:
    (problem,) = read(text, "f").problems
    assert str(problem).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: the file is empty; a job file is a mapping"),
        ("# only\n# comments\n", "f: the file is empty"),
        ("---\n", "f: the file is empty"),
        ("a", "f:1:1: the file must hold a mapping of 'key: value' lines, not a single value"),
        ("- a", "f:1:1: the file must hold a mapping of 'key: value' lines, not a list"),
        ("a: 1\n---\nb: 1\n", "f:2:1: a second document starts here"),
        ("%YAML 1.1\n---\na: 1\n", "f:1:1: job files are YAML 1.2; remove this directive"),
        ("%YAML 1.3\n---\na: 1\n", "f:1:1: job files are YAML 1.2"),
        ("a:\n\tb: 1\n", "f:2:1: tabs are not allowed in indentation; use spaces"),
        (
            "a: {{ x y }}",
            "f:1:5: a key must be a plain word, not a list or a mapping; put a value that starts with '{'",
        ),
        ("? [a]\n: b", "f:1:3: a key must be a plain word"),
        ("a: &x [1]\n*x : 1", "f:2:1: a key must be a plain word"),
        ("a: @x", "f:1:4: a value must not start with '@'; put it in quotes"),
        ("a: %x", "f:1:4: a value must not start with '%'"),
        ("a: b: c", "f:1:5: a ':' is not allowed here"),
        ("a: 'b\nc: d", "f:1:4: this quote is never closed"),
        ("a: [1, 2\nb: 3", "f:2:2: a ',' or the ']' that ends the list is missing before this"),
        ("a:\n  - b\n  c: 1", "f:3:3: the indentation does not match the lines above"),
        ("a: *nowhere", "f:1:4: no anchor is named 'nowhere'"),
        ("a: &base 1\nb: *bsae", "f:2:4: no anchor is named 'bsae'; did you mean 'base'?"),
        ("a: &a [*a]", "f:1:8: the alias 'a' is inside the value that it refers to"),
        ("a: \x07", "f:1:4: the character U+0007 is not allowed in YAML"),
        ("a: \x00", "f:1:4: the character U+0000 is not allowed in YAML"),
        ("a: \ud800", "f:1:4: the character U+D800 is not allowed in YAML"),
        ("a: " + "[" * 101, "f:1:103: values are nested more than 100 levels deep here"),
        ("a: \r\n  - b\r\n  c: 1", "f:3:3: the indentation does not match the lines above"),
        ("a: '" + "x" * (4 << 20) + "'", "f: the limit for a job file is 4 MiB, and this one has 4194309 characters"),
    ],
    ids=lambda text: text[:20],
)
def test_refused(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


def test_alias_bombs_are_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "expand to more than 100000 values" in refusal("\n".join(levels))
    merged = "a: &a {" + ", ".join(f"k{i}: 1" for i in range(2000)) + "}\n"
    assert "expand to more than" in refusal(merged + "\n".join(f"b{i}: {{<<: *a}}" for i in range(60)))
    assert "expand to more than" in refusal("a: &a " + "x" * 100_000 + "\nl: [" + "*a, " * 1000 + "]")


def test_aliases_cannot_nest_deeper_than_the_limit() -> None:
    chain = ["a0: &a0 [x]"] + [f"a{i}: &a{i} {'[' * 40}*a{i - 1}{']' * 40}" for i in range(1, 4)]
    assert refusal("\n".join(chain)).startswith("f:4:49: values are nested more than 100 levels deep")


def test_a_no_break_space_is_named_beside_the_error() -> None:
    """Copied from a web page, it looks like a space."""
    copied = refusal("a: 1\nl:\n- x\n-\xa0name:\xa0y\n- z\n")
    assert copied.endswith("; line 4 has a no-break space (U+00A0), as copied from web pages: replace it with a space")
    assert "no-break" not in refusal("a: x\xa0y\nb: [1\n")


def test_every_problem_is_kept_up_to_a_limit() -> None:
    text = "a: 0\n" * 1000
    with pytest.raises(InputError) as caught:
        read(text)
    assert len(caught.value.problems) == 201
    assert "too many problems" in str(caught.value.problems[-1])


def test_the_pure_python_loader_is_used_if_libyaml_is_missing() -> None:
    hide = "import sys; sys.modules['yaml._yaml'] = None; "
    code = (
        f"{hide}from kedge.spec import yaml as y, libyaml; "
        "print(libyaml._PARSER.__name__, y.read('a: [0o17, on]\\n').value)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "SafeLoader {'a': [15, 'on']}\n"
    assert hasattr(pyyaml, "CSafeLoader")  # otherwise the other tests here would not test libyaml
