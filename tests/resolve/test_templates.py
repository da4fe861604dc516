"""Template variables of prerequisites: their values, types and errors with positions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.errors import InputError
from kedge.spec.marks import KeyMarks, Marks
from kedge.spec.model import JobFileSource
from kedge.spec.nodes import Node
from kedge.spec.templates import Value, fill, parsed
from kedge.spec.yaml import read

from .conftest import Folder, echo, names, reference, scripts


def typed(kind: str, **more: Any) -> dict[str, Any]:
    variables = [{"name": "v", "type": kind, **more}]
    return echo("t", "echo {{ v }}", type="script", template_variables=variables)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("string", "a b", "a b"),
        ("string", "30", "30"),
        ("integer", 30, "30"),
        ("number", 1.5, "1.5"),
        ("number", 3, "3"),
        ("boolean", True, "true"),
        ("path", "/data/my set", "/data/my set"),
        ("choice", "sgd", "sgd"),
        ("choice", 2, "2"),
        ("integer", "<% $parameters.x %>", "7"),
    ],
)
def test_values_of_each_type(folder: Folder, kind: str, value: object, shown: str) -> None:
    more = {"choices": ["sgd", "adam", 2]} if kind == "choice" else {}
    extras = {"reference_prerequisites": [reference("r", "t", v=value)]}
    job = folder.resolve(["r"], prerequisites=[typed(kind, **more)], extras=extras, parameters={"x": 7})
    assert scripts(job) == {"t": f"echo {shown}\n"}


@pytest.mark.parametrize(
    ("kind", "value", "allowed"),
    [
        ("string", 30, "must be a string; put it in quotes, not '30'"),
        ("integer", "30", "must be a whole number, not '30'"),
        ("integer", 1.5, "must be a whole number, not '1.5'"),
        ("integer", True, "must be a whole number, not 'true'"),
        ("number", "fast", "must be a number, not 'fast'"),
        ("number", float("nan"), "must be a number, not '.nan'"),
        ("boolean", "yes", "must be true or false, not 'yes'"),
        ("path", "", "must be a path: a string of one line, not empty, not ''"),
        ("path", "a\nb", "must be a path: a string of one line, not empty, not 'a\\nb'"),
        ("choice", "sdg", "must be one of 'sgd', 'adam', not 'sdg'"),
    ],
)
def test_the_message_about_a_wrong_value_names_what_is_allowed(
    folder: Folder, kind: str, value: object, allowed: str
) -> None:
    more = {"choices": ["sgd", "adam"]} if kind == "choice" else {}
    extras = {"reference_prerequisites": [reference("r", "t", v=value)]}
    problem = folder.problem(["r"], prerequisites=[typed(kind, **more)], extras=extras)
    assert problem.message == f"template variable v {allowed} (prerequisite t)"
    assert problem.where == "extras.reference_prerequisites[0].require[0].template_variables.v"


@pytest.mark.parametrize(
    ("kind", "parameter", "message"),
    [
        ("integer", "ten", "must be a whole number, not 'ten' (prerequisite t)"),
        ("choice", "c", "must be one of 'a', 'b', not 'c' (prerequisite t)"),
        ("boolean", 1, "must be true or false, not '1' (prerequisite t)"),
        ("path", "", "must be a path: a string of one line, not empty, not '' (prerequisite t)"),
    ],
)
def test_the_value_of_a_referenced_parameter_is_checked(
    folder: Folder, kind: str, parameter: object, message: str
) -> None:
    more = {"choices": ["a", "b"]} if kind == "choice" else {}
    extras = {"reference_prerequisites": [reference("r", "t", v="<% $parameters.x %>")]}
    problem = folder.problem(["r"], prerequisites=[typed(kind, **more)], extras=extras, parameters={"x": parameter})
    assert problem.message == f"template variable v {message}"
    problem = folder.problem(["r"], prerequisites=[typed(kind, **more)], extras=extras)
    assert "no parameter is named 'x'" in problem.message


def test_defaults_are_used_and_unknown_names_get_a_suggestion(folder: Folder) -> None:
    item = typed("integer", default=3)
    assert scripts(folder.resolve(["t"], prerequisites=[item])) == {"t": "echo 3\n"}
    extras = {"reference_prerequisites": [reference("r", "t", V=4)]}
    problem = folder.problem(["r"], prerequisites=[item], extras=extras)
    assert problem.message == "Prerequisite t has no template variable V. Did you mean 'v'?"


def test_the_same_item_with_other_values_is_another_one(folder: Folder) -> None:
    references = [reference("a", "t", v=1), reference("b", "t", v="1"), reference("c", "t"), reference("d", "t", v=1)]
    item = echo("t", "echo {{ v }}", type="script", template_variables=[{"name": "v", "default": 1}])
    job = folder.resolve(list("abcd"), prerequisites=[item], extras={"reference_prerequisites": references})
    assert names(job) == ["t(v=1)", "a", "t(v=1)", "b", "c", "d"]


def test_a_value_keeps_its_spelling(folder: Folder) -> None:
    text = folder.job(
        ["r"], prerequisites=[echo("t", "echo {{ v }} {{v}}", type="script", template_variables=[{"name": "v"}])]
    )
    text += "extras: {reference_prerequisites: [{name: r, require: [{name: t, template_variables: {v: 1.0}}]}]}\n"
    assert scripts(folder.resolve_text(text)) == {"t": "echo 1.0 1.0\n"}


def test_a_scalar_that_is_only_a_variable_takes_the_type_of_the_value(folder: Folder) -> None:
    folder.write("t.yaml", "name: t\nretry: {max: {{ n }}}\ntimeoutSec: {{ n }}\ncallbacks:\n  - {event: taskStarts, "
                 "commands: [{{ n }}, '{{ n }} {{ other }} ${{ n }}']}\ntemplate_variables: [{name: n}]\n")  # fmt: skip
    extras = {"reference_prerequisites": [reference("r", "./t.yaml", n=2)]}
    job = folder.resolve(["r"], extras=extras)
    (step,) = job.roles[0].steps
    assert (step.retry.max, step.timeout_sec) == (2, 2)
    assert scripts(job) == {"t": "2\n2 {{ other }} $2\n"}


def test_a_filled_item_is_checked_again(folder: Folder) -> None:
    item = echo("t", type="script", retry={"max": "{{ n }}"}, template_variables=[{"name": "n"}])
    extras = {"reference_prerequisites": [reference("r", "t", n="often")]}
    problem = folder.problem(["r"], prerequisites=[item], extras=extras)
    assert (problem.where, problem.message) == ("prerequisites[1].retry.max", "must be a whole number, not 'often'")
    item = echo("t", type="script", retry={"max": "{{ undeclared }}"})
    assert folder.problem(["t"], prerequisites=[item]).where == "prerequisites[1].retry.max"


def test_an_alias_hides_nothing_from_the_check(folder: Folder) -> None:
    text = folder.job(["t"], prerequisites=[echo("t", type="script", retry="HERE")]).replace("HERE", "*r")
    text = text.replace("protocolVersion: 2\n", "protocolVersion: 2\nparameters: {r: &r {max: '{{ n }}'}}\n")
    with pytest.raises(InputError, match=r"prerequisites\[1\]\.retry\.max: must be a whole number, not '{{ n }}'"):
        folder.resolve_text(text)


def test_a_broken_tag_in_a_value_is_found(folder: Folder) -> None:
    extras = {"reference_prerequisites": [reference("r", "t", v="<% $parameters.x")]}
    problem = folder.problem(["r"], prerequisites=[typed("string")], extras=extras)
    assert "never closed" in problem.message


def test_values_are_passed_on_to_required_items(folder: Folder) -> None:
    inner = echo("inner", "echo {{ p }}", type="script", template_variables=[{"name": "p"}])
    given = {"name": "inner", "template_variables": {"p": "{{ root }}/<% this.sub %>"}}
    outer = echo("outer", type="script", sub="x", template_variables=[{"name": "root"}], require=[given])
    extras = {"reference_prerequisites": [reference("r", "outer", root="/data")]}
    job = folder.resolve(["r"], prerequisites=[inner, outer], extras=extras)
    assert scripts(job)["inner"] == "echo /data/x\n"


def test_data_of_a_role_has_the_defaults_of_its_variables(folder: Folder) -> None:
    data = {
        "name": "d",
        "type": "data",
        "uri": ["{{ base }}/x"],
        "template_variables": [{"name": "base", "default": "h"}],
    }
    text = folder.job([], prerequisites=[data]).replace("- 'true'", "- get <% $data.uri[0] %>\n    data: d")
    assert folder.resolve_text(text).roles[0].command == ("get h/x",)


NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    [
        "a: b",
        "- x",
        "]",
        "}",
        "{{ a }}",
        "#",
        "'",
        '"',
        "\n- y",
        "&a",
        "*a",
        "<<",
        "!!int 3",
        "|",
        "<% $parameters.x %>",
    ]
)
TEXTS = st.lists(
    st.sampled_from(["{{ a }}", "{{b}}", "{{\tc }}", " ", "x", "$", "{{ d }}"]), min_size=1, max_size=5
).map("".join)
SHAPES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def shape(value: object) -> object:
    """The value with all scalars made equal, so that only its structure is left."""
    if isinstance(value, dict):
        return {key: shape(below) for key, below in value.items()}
    return [shape(below) for below in value] if isinstance(value, list) else "scalar"


def flow(value: object) -> str:
    """A value in flow style, with strings as plain scalars where possible."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return str(value).strip() or "x"


@given(SHAPES, st.dictionaries(NAMES, VALUES))
def test_no_value_can_change_the_structure(value: object, values: dict[str, str]) -> None:
    root = read(f"top: {flow(value)}").root
    filled = fill(root, {name: Value(text, text) for name, text in values.items()})
    assert shape(filled.value) == shape(root.value)
    for path, mark in Marks(root).items():
        new = Marks(filled)[path]
        assert (new.line, new.column, new.offset, new.end) == (mark.line, mark.column, mark.offset, mark.end)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12), st.sampled_from(["{{ a }}", "x {{a}} y"]))
def test_a_filled_in_value_is_unchanged(value: str, template: str) -> None:
    filled = fill(read(f"top: {template}").root, {"a": Value(value, value)}).value["top"]
    assert filled == template.replace("{{ a }}", value).replace("{{a}}", value)


@given(st.text("{} \t\nab_1:'\"-\ue000\ue001", max_size=20))
def test_undeclared_variables_are_kept_as_written(text: str) -> None:
    quoted = "'" + text.replace("'", "''").replace("\n", " ").replace("\t", " ") + "'"
    assert read(f"a: {quoted}").value["a"] == text.replace("\n", " ").replace("\t", " ")


@given(st.integers() | st.floats(allow_nan=False) | st.booleans())
def test_a_value_given_as_text_is_read_as_yaml(value: object) -> None:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    assert parsed(text).value == value or "e" in text or "inf" in text


def test_a_placeholder_has_a_mark_like_any_scalar() -> None:
    document = read("a: 1\nb: [x, {{ p }}, {{q}}]\n")
    assert document.value == {"a": 1, "b": ["x", "{{ p }}", "{{q}}"]}
    assert (document.source.marks["b", 1].line, document.source.marks["b", 1].column) == (2, 8)
    assert isinstance(document.source, JobFileSource)
    assert isinstance(document.root, Node)
    assert list(KeyMarks(document.root)) == [("a",), ("b",)]
    with pytest.raises(InputError):
        read("a: {{ no name }}")
