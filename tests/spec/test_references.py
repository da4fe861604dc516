from __future__ import annotations

from typing import Any

import pytest

from kedge.spec.model import Mark, Path
from kedge.spec.references import Reference, TagError, Unresolved, locate, lookup, split
from kedge.spec.yaml import read

JOB = """\
parameters:
  x: '111'
  n: 1.0
  b: true
  big: 0o17
  l: [1, 2.50]
  e: ''
  z: 0
  none: ~
  lr: 1e-3
  opt: {name: sgd}
data:
  name: d
  uri: [u0, u1]
one: {uri: single}
secrets: "******"
"""


def find(tag: str) -> str | Unresolved:
    document = read(JOB)
    (reference,) = split(tag)
    assert isinstance(reference, Reference)
    at = {"parameters": "parameters", "data": "data", "script": "one", "secrets": "secrets"}[reference.root]
    return lookup(reference, document.value[at], document.source.marks, (at,))


@pytest.mark.parametrize(
    ("tag", "root", "path"),
    [
        ("<% $parameters.x %>", "parameters", ("x",)),
        ("<%$secrets.a%>", "secrets", ("a",)),
        ("<%\n$data . uri [ 0 ]\n%>", "data", ("uri", 0)),
        ("<% $parameters.a-b.c_d[1][2].e %>", "parameters", ("a-b", "c_d", 1, 2, "e")),
        ("<% $output.uri.0 %>", "output", ("uri", "0")),
        ("<% $script %>", "script", ()),
    ],
)
def test_references(tag: str, root: str, path: Path) -> None:
    assert split(f"a {tag} b") == ("a ", Reference(root, path, tag, 2), " b")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "<% parameters.x %>",
        "{{ $parameters.x }}",
        "<% $x %>",
        "<% $parametersX.y %>",
        "<% $parameters-x.y %>",
        "<% this.x %>",
        "<%& $secrets.a %>",
        "<%# $secrets.a %>",
        "<%! $secrets.a %>",
        "<%{ $secrets.a }%>",
        "<%%>",
        "a %> b",
    ],
)
def test_anything_else_is_plain_text(text: str) -> None:
    assert split(text) == ((text,) if text else ())


def test_a_text_is_split_at_all_its_references() -> None:
    parts = split("<% $parameters.x %><% $x %>-<% $parameters.x %>")
    assert [part if isinstance(part, str) else part.offset for part in parts] == [0, "<% $x %>-", 28]


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("a <% $x", 2, "never closed"),
        ("a <% $x %> <%", 11, "never closed"),
        ("printf '<%s' <% $parameters.x %>", 8, "never closed"),
        (
            "a <% $parameters.x y %>",
            2,
            "'<% $parameters.x y %>' is not a reference; write it like <% $parameters.name %>",
        ),
        ("<% $data.uri[x] %>", 0, "is not a reference"),
        ("<% $data..uri %>", 0, "is not a reference"),
        ("<% $data.uri[-1] %>", 0, "is not a reference"),
    ],
)
def test_broken_tags(text: str, offset: int, message: str) -> None:
    with pytest.raises(TagError) as caught:
        split(text)
    assert caught.value.offset == offset
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("<%$parameters.x%>", "111"),
        ("<% $parameters.n %>", "1.0"),
        ("<% $parameters.b %>", "true"),
        ("<% $parameters.big %>", "0o17"),
        ("<% $parameters.l[1] %>", "2.50"),
        ("<% $parameters.e %>", ""),
        ("<% $parameters.z %>", "0"),
        ("<% $parameters.lr %>", "1e-3"),
        ("<% $parameters.opt.name %>", "sgd"),
        ("<% $data.uri[0] %>", "u0"),
        ("<% $data.uri.1 %>", "u1"),
        ("<% $script.uri[0] %>", "single"),
        ("<% $script.uri %>", "single"),
    ],
)
def test_values_are_looked_up_as_written(tag: str, text: str) -> None:
    assert find(tag) == text


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("<% $parameters.lrr %>", "no parameter is named 'lrr'; did you mean 'lr'?"),
        ("<% $parameters.opt.nam %>", "$parameters.opt has no 'nam'; did you mean 'name'?"),
        ("<% $data.contributor %>", "$data has no 'contributor'"),
        ("<% $data.uri[9] %>", "$data.uri has 2 entries, counted from 0; there is no 9"),
        ("<% $data.uri.x %>", "$data.uri has 2 entries, counted from 0; there is no x"),
        ("<% $data.uri %>", "$data.uri is a list, not a scalar; use $data.uri[0]"),
        ("<% $parameters.opt %>", "$parameters.opt is a mapping, not a scalar; use $parameters.opt.name"),
        ("<% $parameters.none %>", "$parameters.none is empty (null)"),
        ("<% $parameters.x.y %>", "$parameters.x is neither a mapping nor a list; it has nothing below it"),
        ("<% $parameters.x[0] %>", "$parameters.x is neither a mapping nor a list; it has nothing below it"),
        ("<% $script.uri[1] %>", "$script.uri is neither a mapping nor a list; it has nothing below it"),
        ("<% $secrets.a %>", "the secrets were removed when this job was stored; write them again"),
    ],
)
def test_references_without_a_value_are_explained(tag: str, message: str) -> None:
    assert find(tag) == Unresolved(message)


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (3, "3"), ("a", "a")])
def test_values_without_a_mark_are_converted_to_text(value: Any, text: str) -> None:
    assert lookup(Reference("data", ("k",), "", 0), {"k": value}, {}, ("x",)) == text


def test_a_reference_needs_a_prerequisite_of_the_role() -> None:
    found = lookup(Reference("data", ("uri",), "", 0), None, {}, ())
    assert found == Unresolved("this task role names no data prerequisite")


@pytest.mark.parametrize(
    ("text", "nth", "line", "column"),
    [
        ("a: x <% $p %> <% $p %>", 0, 1, 6),
        ("a: x <% $p %> <% $p %>", 1, 1, 15),
        ("a: |\n  one\n  two <% $p %>\nb: <% $p %>", 0, 3, 7),
        ("a: >-\n  one\n  two <%\n  $p %>", 0, 3, 7),
        ('a: "é\\t<% $p %>"', 0, 1, 8),
        ("a: 'x\n\n  <% $p %>'", 0, 3, 3),
        ("a: |\r\n  one\r\n  <% $p %>\r\n", 0, 3, 3),
        ('a: "\\u003c% $p %>"\nb: <% $p %>', 0, 1, 4),
        ("a: <% $p %>\nb: <% $p %>", 1, 1, 4),
    ],
)
def test_a_tag_is_found_in_the_file(text: str, nth: int, line: int, column: int) -> None:
    mark = locate(read(text).source, ("a",), "<% $p %>", nth)
    assert isinstance(mark, Mark)
    assert (mark.line, mark.column) == (line, column)


@pytest.mark.parametrize(
    ("tag", "values", "text"),
    [
        ("<% $parameters[0] %>", {"0": "zero"}, "zero"),
        ("<% $parameters.o[1] %>", {"o": {"1": "one"}}, "one"),
        ("<%\ufeff$parameters.x\ufeff%>", {"x": 1}, "1"),
    ],
)
def test_space_and_keys_are_read_as_in_openpai(tag: str, values: dict[str, Any], text: str) -> None:
    (reference,) = split(tag)
    assert isinstance(reference, Reference)
    assert lookup(reference, values, {}, ("parameters",)) == text


@pytest.mark.parametrize("tag", ["<%\x85$parameters.x %>", "<% \x1c$parameters.x %>"])
def test_characters_that_are_not_space_in_openpai(tag: str) -> None:
    assert split(tag) == (tag,)
