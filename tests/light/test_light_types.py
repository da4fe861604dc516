"""The light NamedTuple behaves as that of `typing`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any
from typing import NamedTuple as ModelNamedTuple

import pytest

from kedge.light.types import NamedTuple


class Light(NamedTuple):
    """A point."""

    x: int
    y: int = 2
    z: tuple[int, ...] = ()

    @property
    def sum(self) -> int:
        return self.x + self.y


class Model(ModelNamedTuple):
    x: int
    y: int = 2
    z: tuple[int, ...] = ()

    @property
    def sum(self) -> int:
        return self.x + self.y


RIGHT: tuple[Callable[[Any], Any], ...] = (
    lambda kind: kind(1),
    lambda kind: kind(1, 3),
    lambda kind: kind(1, 3, (4,)),
    lambda kind: kind(x=1),
    lambda kind: kind(1, z=(5,)),
    lambda kind: kind(z=(5,), y=7, x=1),
    lambda kind: kind(1)._replace(y=9),
    lambda kind: kind(1)._asdict(),
    lambda kind: kind(1).sum,
    lambda kind: kind(1)[1:],
    lambda kind: kind._make([1, 2, ()]),
    lambda kind: kind._fields,
    lambda kind: kind._field_defaults,
    lambda kind: kind.__match_args__,
    lambda kind: hash(kind(1)),
    lambda kind: repr(kind(1)).removeprefix(kind.__name__),
    lambda kind: kind(1) == (1, 2, ()),
    lambda kind: pickle.loads(pickle.dumps(kind(1, 4))),
    lambda kind: copy.deepcopy(kind(1, 4)),
)
WRONG: tuple[Callable[[Any], Any], ...] = (
    lambda kind: kind(),
    lambda kind: kind(y=1),
    lambda kind: kind(1, 2, (), 4),
    lambda kind: kind(1, x=1),
    lambda kind: kind(1, w=1),
    lambda kind: kind(1, 2, (), w=1),
)


@pytest.mark.parametrize("use", RIGHT)
def test_what_a_named_tuple_does(use: Callable[[Any], Any]) -> None:
    assert use(Light) == use(Model)


@pytest.mark.parametrize("use", WRONG)
def test_wrong_values_are_refused(use: Callable[[Any], Any]) -> None:
    for kind in (Model, Light):
        with pytest.raises(TypeError):
            use(kind)


@pytest.mark.parametrize("name", ["x", "w"])
def test_it_cannot_be_changed(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(Light(1), name, 2)


def test_it_can_be_matched() -> None:
    match Light(1, 3):
        case Light(x, y=3):
            assert x == 1
        case _:
            pytest.fail("no match")
