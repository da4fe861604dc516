"""A quick dataclass is one of the standard library in every respect that kedge uses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any

import pytest

from kedge import quick_dataclasses


@quick_dataclasses.dataclass(frozen=True, slots=True)
class Quick:
    """A value."""

    name: str
    hidden: str = field(repr=False)
    number: int = 3
    items: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


Standard = dataclasses.make_dataclass(
    "Quick",
    [(each.name, each.type, field(repr=each.repr, default=each.default)) for each in fields(Quick)[:3]]
    + [("items", dict, field(default_factory=dict))],
    frozen=True,
    slots=True,
)


def outcome(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except (TypeError, AttributeError) as error:
        return type(error), str(error).replace("Standard", "Quick")


@pytest.mark.parametrize(
    "do",
    [
        lambda cls: repr(cls("a", "b")),
        lambda cls: cls("a", "b") == cls("a", "b", 3, {}),
        lambda cls: cls("a", "b") == cls("a", "c"),
        lambda cls: cls("a", "b") == ("a", "b", 3, {}),
        lambda cls: hash(cls("a", "b", items=())) == hash(("a", "b", 3, ())),
        lambda cls: hash(cls("a", "b")),  # a dict has no hash
        lambda cls: asdict(cls("a", "b", items={"x": 1})),
        lambda cls: repr(replace(cls("a", "b"), number=4)),
        lambda cls: cls("a", "b").items is cls("a", "b").items,
        lambda cls: cls.__slots__,
        lambda cls: cls.__match_args__,
        lambda cls: cls("a"),
        lambda cls: cls("a", "b", nmae=1),
        lambda cls: setattr(cls("a", "b"), "name", "c"),
        lambda cls: delattr(cls("a", "b"), "name"),
        lambda cls: [(each.name, each.repr, each.default) for each in fields(cls)],
        lambda cls: repr(copy.deepcopy(cls("a", "b", items={"x": 1}))),
    ],
)
def test_it_does_what_the_standard_library_does(do: Callable[[Any], Any]) -> None:
    assert outcome(lambda: do(Quick)) == outcome(lambda: do(Standard))


def test_a_method_of_the_class_stays() -> None:
    assert str(Quick("a", "b")) == "a"


def test_a_value_can_be_pickled() -> None:
    value = Quick("a", "b", items={"x": 1})
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(FrozenInstanceError):
        value.number = 4  # type: ignore[misc]


def test_what_is_not_frozen_can_change_and_has_no_hash() -> None:
    @quick_dataclasses.dataclass(slots=True)
    class Open:
        number: int = 1

    value = Open()
    value.number += 1
    assert (value, repr(value)) == (Open(2), f"{Open.__qualname__}(number=2)")
    with pytest.raises(TypeError):
        hash(value)


def test_without_eq_only_the_same_is_equal() -> None:
    @quick_dataclasses.dataclass(slots=True, eq=False)
    class Node:
        number: int

    one = Node(1)
    assert one == one
    assert one != Node(1)
    assert len({one, Node(1)}) == 2


def test_options_that_are_not_supported_are_refused() -> None:
    with pytest.raises(AssertionError):

        @quick_dataclasses.dataclass(slots=True)
        class Uncompared:
            number: int = field(compare=False)

    with pytest.raises(AssertionError):

        @quick_dataclasses.dataclass(slots=True)
        class Checked:
            number: int

            def __post_init__(self) -> None:
                pass
