"""The light functions read and write what those of `json` do."""

from __future__ import annotations

import json as model
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kedge
from kedge.light import json

SRC = str(Path(kedge.__file__).parents[1])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner))


@given(VALUES)
def test_what_is_written(value: Any) -> None:
    assert json.dumps(value) == model.dumps(value)
    assert json.indented(value) == model.dumps(value, indent=1)


@given(VALUES, st.sampled_from(["", " ", "\n\t\r"]), st.booleans())
def test_what_is_read(value: Any, blank: str, ascii_only: bool) -> None:
    text = blank + model.dumps(value, ensure_ascii=ascii_only) + blank
    assert repr(json.loads(text)) == repr(model.loads(text))
    assert repr(json.loads(text.encode("utf-8", "surrogatepass"))) == repr(model.loads(text))


WRONG = [
    "",
    " ",
    "{",
    "[1,]",
    "1 2",
    '"a',
    "nul",
    "{1: 2}",
    '{"a": 1',
    '"\n"',
    "[1] x",
    b"\xff",
    b"\xef\xbb\xbf[",
    "\ufeff1",
]


@pytest.mark.parametrize("data", WRONG)
def test_what_is_no_json_gets_the_error_of_json(data: str | bytes) -> None:
    with pytest.raises(ValueError) as expected:  # noqa: PT011  (compared below)
        model.loads(data)
    with pytest.raises(type(expected.value)) as found:
        json.loads(data)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("data", WRONG)
def test_the_error_where_json_is_not_loaded(data: str | bytes) -> None:
    with pytest.raises(ValueError) as expected:  # noqa: PT011  (compared below)
        model.loads(data)
    program = f"import sys; sys.path.append({SRC!r}); from kedge.light import json; json.loads({data!r})"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True)
    assert done.stderr.decode().endswith(f"{type(expected.value).__name__}: {expected.value}\n")


@given(st.text(alphabet='[]{}",: 1e-.nulNaIfity\\u00d8'))
def test_any_text(text: str) -> None:
    assert _read(json, text) == _read(model, text)


def _read(module: Any, text: str) -> str:
    try:
        return repr(module.loads(text))
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_other_encodings(encoding: str) -> None:
    assert json.loads('["ü"]'.encode(encoding)) == ["ü"]


def test_other_values_are_refused() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps([object()])
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular"):
        json.dumps(circle)


def test_a_refused_value_is_forgotten() -> None:
    """Once it is right, the same list can be written."""
    value: list[object] = [object()]
    with pytest.raises(TypeError):
        json.dumps([value])
    value[0] = 1
    assert json.dumps(value) == "[1]"
