"""The conformance check for plugin authors finds the mistakes that it is meant to find."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from kedge.contract import TASK_STARTS, SecretRef
from kedge.plugins.base import Callback, Parameter, Steps
from kedge.plugins.parameters import list_of, string, text
from kedge.testing.plugins import conforms

NUMBERS = count()


class Say:
    """A plugin that does everything right."""

    parameters: tuple[Parameter, ...] | None = (Parameter("what", text, "what is said", required=True),)

    def steps(self, values: Mapping[str, Any]) -> Steps:
        return said("echo ", *values["what"])


def said(*parts: str | SecretRef) -> Steps:
    return Steps((Callback(TASK_STARTS, parts),))


class Changing(Say):
    def steps(self, values: Mapping[str, Any]) -> Steps:
        return said(f"echo {next(NUMBERS)}")


class Curious(Say):
    def steps(self, values: Mapping[str, Any]) -> Steps:
        return said(f"echo {values['what']}")


class Late(Say):
    def steps(self, values: Mapping[str, Any]) -> Steps:
        return Steps((Callback("later", values["what"]),))


class Greedy(Say):
    parameters = None

    def steps(self, values: Mapping[str, Any]) -> Steps:
        return said(*values["what"].pop())


class Doubled(Say):
    parameters = (Parameter("what", text, "a"), Parameter("what", string, "b"))


class Mute(Say):
    parameters = (Parameter("what", text, ""),)


class Undecided(Say):
    parameters = (Parameter("what", list_of(text), "what is said", required=True, default=()),)


def test_a_good_plugin_conforms_and_its_steps_are_returned() -> None:
    assert conforms(Say(), {"what": "hello"}, {"what": "bye"}) == [said("echo ", "hello"), said("echo ", "bye")]


@pytest.mark.parametrize(
    ("plugin", "example", "message"),
    [
        (Changing(), {"what": "a"}, "gives different steps the second time"),
        (Curious(), {"what": "a"}, "the secret in 'what' was turned into text"),
        (Late(), {"what": "a"}, "gives steps that cannot run: 'later' is not an event"),
        (Greedy(), {"what": ["a", "a"]}, "was changed"),
        (Doubled(), {"what": "a"}, "the table names a parameter twice"),
        (Mute(), {"what": "a"}, "has no name or no description"),
        (Undecided(), {"what": ["a"]}, "what is required: no default"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Say) else "",
)
def test_violations_are_found(plugin: Say, example: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        conforms(plugin, example)
