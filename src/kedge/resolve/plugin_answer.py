"""Reads and checks the JSON answer of a plugin that is an executable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kedge.contract import SecretRef, Text
from kedge.plugins.base import Action, Callback, File, Parameter, ParameterError, Steps, Wrong, lines, read
from kedge.plugins.parameters import boolean, describe, list_of, mapping_of, string
from kedge.spec.message_text import printable

MAX_ANSWER_BYTES = 16 << 20


class InvalidAnswer(Exception):
    """The answer cannot be used; the message is the predicate after "the plugin"."""


def steps_in(data: bytes) -> Steps:
    """The steps in an answer. ParameterError: the plugin reports errors in its parameters. InvalidAnswer."""
    answer = _object(data)
    if unknown := sorted(answer.keys() - {parameter.name for parameter in _ANSWER}):
        raise InvalidAnswer(f"answered with unknown keys: {printable(', '.join(unknown))}")
    try:
        values = read(_ANSWER, answer)
    except ParameterError as error:
        raise InvalidAnswer(f"gave an invalid answer ({_place(error.wrong[0])})") from None
    if values["errors"]:
        raise ParameterError(*values["errors"])
    return Steps(values["callbacks"], values["files"], values["environment"], notes=values["notes"])


def _object(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise InvalidAnswer("ended without an answer")
    try:
        value = json.loads(data, parse_constant=_refuse_constant, parse_int=_integer)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise InvalidAnswer("answered with JSON that is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise InvalidAnswer(f"answered with U+{ord(error.object[error.start]):04X}, which is not a character") from None
    except ValueError as error:
        raise InvalidAnswer(f"did not answer with JSON ({error})") from None
    if not isinstance(value, dict):
        raise InvalidAnswer("answered with JSON that is not an object")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > 1000:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _place(wrong: Wrong) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in wrong.path)
    return ": ".join(part for part in (steps.removeprefix("."), wrong.message) if part)


def _record(table: tuple[Parameter, ...], make: Callable[..., Any]) -> Callable[[object], Any]:
    """A reader for JSON objects with the keys of a table; `make` builds the result from the values."""

    def read_object(value: object) -> Any:
        if not isinstance(value, Mapping):
            raise ParameterError(f"must be an object, not {describe(value)}")
        return make(**read(table, value))

    return read_object


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


def _callback(event: str, commands: tuple[Text, ...], action: Action | None, service: str | None) -> Callback:
    return Callback(event, lines(commands), action, service)


_SECRET = (
    Parameter("key", string, "the secret's name", required=True),
    Parameter("source", string, "the tag in the job file", required=True),
)
_TEXT = (Parameter("text", list_of(_part), "strings and secrets", required=True),)
_ACTION = (
    Parameter("kind", string, "the name of the action", required=True),
    Parameter("parameters", _any_object, "parameters of the action", required=True),
)
_CALLBACK = (
    Parameter("event", string, "the event that it runs at", required=True),
    Parameter("commands", list_of(_text), "shell lines", default=()),
    Parameter("action", _record(_ACTION, Action), "an action of the runtime itself"),
    Parameter("service", string, "the name of a program that runs beside the command"),
)
_FILE = (
    Parameter("path", string, "the path of the file", required=True),
    Parameter("content", _text, "the content of the file", required=True),
    Parameter("executable", boolean, "whether it can be executed", default=False),
)
_ERROR = (
    Parameter("message", string, "the error message", required=True),
    Parameter("path", list_of(_step), "the path of the wrong value", default=()),
)
_ANSWER = (
    Parameter("callbacks", list_of(_record(_CALLBACK, _callback)), "callbacks at events", default=()),
    Parameter("files", list_of(_record(_FILE, File)), "files to write before the callbacks", default=()),
    Parameter("environment", mapping_of(string), "environment variables", default={}),
    Parameter("notes", list_of(string), "notes for the submitter", default=()),
    Parameter("errors", list_of(_record(_ERROR, Wrong)), "errors in the parameters", default=()),
)
