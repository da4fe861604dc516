"""What a plugin that is an executable answers: JSON, and what each value in it must be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kedge.contract import SecretRef, Text
from kedge.plugins.base import Action, Callback, File, Parameter, ParameterError, Steps, Wrong, lines, read
from kedge.plugins.parameters import boolean, describe, list_of, mapping_of, string
from kedge.spec.message_text import printable

LARGEST = 16 << 20  # bytes


class NoAnswer(Exception):
    """The answer cannot be used; the message goes on after "the plugin"."""


def steps_in(data: bytes) -> Steps:
    """The steps that an answer tells. ParameterError: the plugin says what is wrong with its parameters. NoAnswer."""
    answer = _object(data)
    if unknown := sorted(answer.keys() - {parameter.name for parameter in _ANSWER}):
        raise NoAnswer(f"answered with unknown keys: {printable(', '.join(unknown))}")
    try:
        values = read(_ANSWER, answer)
    except ParameterError as error:
        raise NoAnswer(f"answered what is no result of a plugin ({_place(error.wrong[0])})") from None
    if values["errors"]:
        raise ParameterError(*values["errors"])
    return Steps(values["callbacks"], values["files"], values["environment"], notes=values["notes"])


def _object(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise NoAnswer("ended without an answer")
    try:
        value = json.loads(data, parse_constant=_no_number, parse_int=_integer)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise NoAnswer("answered JSON that is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise NoAnswer(f"answered with U+{ord(error.object[error.start]):04X}, which is no character") from None
    except ValueError as error:
        raise NoAnswer(f"answered no JSON ({error})") from None
    if not isinstance(value, dict):
        raise NoAnswer("answered JSON that is no object")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > 1000:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _place(wrong: Wrong) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in wrong.path)
    return ": ".join(part for part in (steps.removeprefix("."), wrong.message) if part)


def _record(table: tuple[Parameter, ...], make: Callable[..., Any]) -> Callable[[object], Any]:
    """The reader of a mapping with the values of a table, of which something is made."""

    def each(value: object) -> Any:
        if not isinstance(value, Mapping):
            raise ParameterError(f"must be an object, not {describe(value)}")
        return make(**read(table, value))

    return each


def _any_object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ParameterError(f"must be an object, not {describe(value)}")
    return value


def _text(value: object) -> Text:
    if isinstance(value, str):
        return (value,)
    return tuple(_record(_TEXT, lambda text: text)(value))


def _part(value: object) -> str | SecretRef:
    return value if isinstance(value, str) else _record(_SECRET, SecretRef)(value)


def _step(value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ParameterError(f"must be a name or an index, not {describe(value)}")
    return value


def _callback(event: str, commands: tuple[Text, ...], action: Action | None) -> Callback:
    return Callback(event, lines(commands), action)


_SECRET = (
    Parameter("key", string, "the secret's name", required=True),
    Parameter("source", string, "the tag", required=True),
)
_TEXT = (Parameter("text", list_of(_part), "strings and secrets", required=True),)
_ACTION = (
    Parameter("kind", string, "what is done", required=True),
    Parameter("parameters", _any_object, "how", required=True),
)
_CALLBACK = (
    Parameter("event", string, "when it runs", required=True),
    Parameter("commands", list_of(_text), "shell lines", default=()),
    Parameter("action", _record(_ACTION, Action), "what the runtime does itself"),
)
_FILE = (
    Parameter("path", string, "where it lies", required=True),
    Parameter("content", _text, "what is in it", required=True),
    Parameter("executable", boolean, "whether it can be run", default=False),
)
_ERROR = (
    Parameter("message", string, "what is wrong", required=True),
    Parameter("path", list_of(_step), "where", default=()),
)
_ANSWER = (
    Parameter("callbacks", list_of(_record(_CALLBACK, _callback)), "what runs at an event", default=()),
    Parameter("files", list_of(_record(_FILE, File)), "what is written before", default=()),
    Parameter("environment", mapping_of(string), "variables", default={}),
    Parameter("notes", list_of(string), "what the submitter should know", default=()),
    Parameter("errors", list_of(_record(_ERROR, Wrong)), "what is wrong with the parameters", default=()),
)
