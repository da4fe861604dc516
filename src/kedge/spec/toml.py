"""Reads TOML 1.0 into plain values, with the position of every key and value."""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from kedge.errors import InputError, Problem
from kedge.late_patterns import late_pattern
from kedge.spec.message_text import excerpt
from kedge.spec.model import JobFileSource
from kedge.spec.toml_places import TomlPlaces

_POSITION = late_pattern(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


class TomlDocument(NamedTuple):
    """One TOML file: its values, and where they stand in its text."""

    value: dict[str, Any]
    source: JobFileSource


def read(text: str, file: str) -> TomlDocument:
    """The tables of a TOML text; `file` is its name in messages. InputError, with the position: it is not TOML."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        value = tomllib.loads(text)
        places = TomlPlaces(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_problem(str(error), text, file)) from None
    except RecursionError:
        raise InputError(Problem(file, 0, 0, "", "it is nested too deeply")) from None
    except ValueError as error:  # a number with too many digits
        raise InputError(Problem(file, 0, 0, "", str(error))) from None
    return TomlDocument(value, JobFileSource(file, text, places.values, places.keys))


def _problem(message: str, text: str, file: str) -> Problem:
    found = _POSITION.fullmatch(message)
    if not found:
        return Problem(file, 0, 0, "", f"this is not TOML: {message}")
    lines = text.split("\n")
    line = int(found[2] or len(lines))
    column = int(found[3] or len(lines[-1]) + 1)
    offset = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    return Problem(file, line, column, "", f"this is not TOML: {found[1]}", excerpt(text, offset))
