"""Properties that must hold for every input, tested with many."""

from __future__ import annotations

import json
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kedge.errors import InputError, Problem
from kedge.spec.parse import parse
from kedge.spec.redact import mask_secrets
from kedge.spec.references import TagError, split
from kedge.spec.yaml import read

BASE = """\
protocolVersion: 2
name: j
type: job
prerequisites:
  - {name: img, type: dockerimage, uri: u}
  - {name: s, type: script, callbacks: [{event: taskStarts, commands: [a]}]}
taskRoles:
  w: &w
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: [a <% $parameters.x %>]
  v: {<<: *w, prerequisites: [s]}
secrets: {a: b}
extras:
  com.microsoft.pai.runtimeplugin: [{plugin: cmd, parameters: {preCommands: [a]}}]
  kedge: {stop: {signal: INT}}
"""
# Random characters rarely form anything that has a meaning in YAML or in a job.
PIECES = [
    "\n",
    "\n  ",
    "- ",
    ": ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "<<: ",
    "'",
    '"',
    "|",
    ">",
    "#",
    "!!int ",
    "%",
]
PIECES += ["<% ", " %>", "secrets", "taskRoles", "name", "~", "1.5", "true", "---\n", "\t", "\r", "\u2028", "\ufeff"]
text = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=30).map("".join)

# The expressions of the core schema, section 10.3.2 of YAML 1.2.2.
CORE = [
    ("null|Null|NULL|~", type(None)),
    ("true|True|TRUE|false|False|FALSE", bool),
    ("[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", int),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
    (r"[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN", float),
]


valid = st.one_of(*(st.from_regex(rf"\A(?:{rule})\Z", alphabet=st.characters(codec="ascii")) for rule, _ in CORE))


@given(valid | st.text("0123456789.eE+-oxbX_:aAnNtTrRuUlLsSfFiI~", min_size=1))
@example("0o")
@example("1e")
@example("+")
def test_plain_scalars_have_the_type_of_the_core_schema(scalar: str) -> None:
    expected = next((kind for rule, kind in CORE if re.fullmatch(rule, scalar)), str)
    try:
        found = read(f"a: [x, {scalar}]").value["a"][1]
    except InputError:
        return  # not a plain scalar, for example `-`
    if isinstance(found, dict | list):
        return  # in a list, `a:` is a mapping
    assert type(found) is expected
    if expected is int and not scalar.startswith(("0o", "0x")):
        assert found == int(scalar)
    if expected is str:
        assert found == scalar


characters = st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(characters),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc<-é", max_size=3), inner, max_size=4),
    max_leaves=15,
)


@given(json_values)
def test_json_is_read_as_json(value: object) -> None:
    assert read(json.dumps({"a": value}, ensure_ascii=False)).value == {"a": value}


def refusal(junk: str) -> InputError | None:
    try:
        parse(junk, "f")
    except InputError as error:
        return error
    return None


@given(text)
@settings(max_examples=300)
def test_parse_raises_nothing_but_input_errors(junk: str) -> None:
    error = refusal(junk)
    assert error is None or error.problems


@given(text, st.integers(0, len(BASE)), st.integers(0, 20))
@settings(max_examples=400)
def test_parse_survives_every_edit_of_a_job(junk: str, at: int, removed: int) -> None:
    edited = BASE[:at] + junk + BASE[at + removed :]
    error = refusal(edited)
    for problem in error.problems if error else ():
        assert isinstance(problem, Problem)
        assert problem.message
        assert "\n" not in str(problem).split("\n    ")[0]
        assert 0 <= problem.line <= edited.count("\n") + edited.count("\r") + 1


@given(text)
def test_split_loses_nothing(junk: str) -> None:
    try:
        parts = split(junk)
    except TagError as error:
        parts = (junk[: error.offset], "<%" + junk[error.offset + 2 :])
    assert "".join(part if isinstance(part, str) else part.source for part in parts) == junk
    for part in parts:
        assert isinstance(part, str) or junk.startswith(part.source, part.offset)


KEYS = st.sampled_from(["secrets:", "secrets :", '"secrets":', "'secrets':", "? secrets\n:", "!!str secrets:"])
comments = st.from_regex(r"\A(#[ a-z]{0,9}\n|\n){0,3}\Z")


def block(value: object, indent: int) -> str:
    """A value in YAML's block style."""
    pad = "\n" + " " * indent
    if isinstance(value, dict) and value:
        return "".join(f"{pad}{json.dumps(key)}:{block(below, indent + 2)}" for key, below in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{pad}-{block(below, indent + 2)}" for below in value)
    return " " + json.dumps(value, ensure_ascii=False)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), json_values, min_size=1, max_size=4),
    KEYS,
    comments,
    comments,
    st.booleans(),
)
def test_masking_changes_only_the_secrets(
    secrets: dict[str, object], key: str, before: str, after: str, flow: bool
) -> None:
    value = " " + json.dumps(secrets, ensure_ascii=False) if flow else block(secrets, 2)
    head, tail = f"name: x\n{before}", f"\n{after}parameters: {{secrets: 1}} # end\n"
    masked = mask_secrets(f"{head}{key}{value}{tail}")
    assert masked == f'{head}{key} "******"{tail}'
    assert read(masked).value == {"name": "x", "secrets": "******", "parameters": {"secrets": 1}}


@given(text)
@settings(max_examples=300)
@example("secrets: {a: &a b}\nx: *a")
def test_a_file_that_can_be_masked_still_parses_and_is_masked(junk: str) -> None:
    try:
        masked = mask_secrets(junk)
    except InputError:
        return
    assert read(masked).value.get("secrets") in ("******", None)
