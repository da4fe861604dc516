"""Reading parameters with the table of a plugin."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.contract import SecretRef
from kedge.plugins.parameters import (
    Parameter,
    ParameterError,
    Reader,
    Wrong,
    boolean,
    integer,
    list_of,
    mapping_of,
    number,
    one_of,
    read,
    string,
    text,
)

SECRET = ("a", SecretRef("s", "<% $secrets.s %>"))


@pytest.mark.parametrize(
    ("reader", "written", "value"),
    [
        (string, "x", "x"),
        (text, "x", ("x",)),
        (text, SECRET, SECRET),
        (boolean, False, False),
        (boolean, "TRUE", True),
        (integer(), 3, 3),
        (integer(1, 3), "3", 3),
        (number(), "0.5", 0.5),
        (number(), 2, 2.0),
        (one_of("a", "b"), "b", "b"),
        (list_of(string), ["a", "b"], ("a", "b")),
        (list_of(text, or_one=True), SECRET, (SECRET,)),
        (list_of(text, or_one=True), [SECRET, "b"], (SECRET, ("b",))),
        (mapping_of(integer()), {"a": "1"}, {"a": 1}),
    ],
)
def test_values_are_converted_to_their_type(reader: Reader, written: Any, value: Any) -> None:
    assert read([Parameter("p", reader, "")], {"p": written}) == {"p": value}


@pytest.mark.parametrize(
    ("reader", "written", "wrong"),
    [
        (string, 3, Wrong("must be a string, not the number 3", ("p",))),
        (
            string,
            SECRET,
            Wrong("must not contain a secret, because its value is needed when the job is submitted", ("p",)),
        ),
        (text, {"a": 1}, Wrong("must be a string, not a mapping", ("p",))),
        (boolean, "yes", Wrong("must be true or false, not 'yes'", ("p",))),
        (boolean, 1, Wrong("must be true or false, not the number 1", ("p",))),
        (integer(), True, Wrong("must be a whole number, not true", ("p",))),
        (integer(), 1.5, Wrong("must be a whole number, not the number 1.5", ("p",))),
        (integer(1), 0, Wrong("must be at least 1, not 0", ("p",))),
        (integer(1, 5), "6", Wrong("must be at most 5, not 6", ("p",))),
        (integer(), SECRET, Wrong("must be a whole number, not a string with a secret", ("p",))),
        (number(), "nan", Wrong("must be a number, not 'nan'", ("p",))),
        (number(), [], Wrong("must be a number, not a list", ("p",))),
        (one_of("a", "b"), "c", Wrong("must be 'a' or 'b', not 'c'", ("p",))),
        (list_of(string), "a", Wrong("must be a list, not 'a'", ("p",))),
        (list_of(list_of(string)), [["a"], [1]], Wrong("must be a string, not the number 1", ("p", 1, 0))),
        (mapping_of(string), {"k": None}, Wrong("must be a string, not empty", ("p", "k"))),
        (mapping_of(string), ["k"], Wrong("must be a mapping, not a list", ("p",))),
    ],
)
def test_errors_name_the_place_and_what_is_allowed(reader: Reader, written: Any, wrong: Wrong) -> None:
    with pytest.raises(ParameterError) as caught:
        read([Parameter("p", reader, "")], {"p": written})
    assert caught.value.wrong == (wrong,)


TABLE = (
    Parameter("commit", string, "what to check out", required=True),
    Parameter("depth", integer(1), "how much history", default=7),
)


def test_missing_and_null_values_get_the_default() -> None:
    assert read(TABLE, {"commit": "c", "depth": None}) == {"commit": "c", "depth": 7}


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        read(TABLE, {"Comit": "c", "depth": 0, "zzz": 1})
    assert caught.value.wrong == (
        Wrong("unknown parameter 'Comit'; did you mean 'commit'?", ("Comit",), is_key=True),
        Wrong("unknown parameter 'zzz'; known here: 'commit', 'depth'", ("zzz",), is_key=True),
        Wrong("must be at least 1, not 0", ("depth",)),
    )


def test_the_error_for_a_missing_parameter_has_its_description() -> None:
    with pytest.raises(ParameterError, match="the parameter 'commit' is missing: what to check out"):
        read(TABLE, {"depth": 1})


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ParameterError) as caught:
        boolean("x" * 10_000)
    assert len(str(caught.value)) < 100
