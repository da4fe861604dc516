"""Reads the values of settings from environment variables."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kedge.errors import InputError
from kedge.settings.table import Setting
from kedge.spec.model import JobFileSource
from kedge.spec.schema import check_document

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read(setting: Setting, text: str) -> Any:
    """The value that a variable's text means. InputError names the variable."""
    value: Any = text
    if setting.schema["type"] == "boolean":
        value = _BOOLEANS.get(text.lower(), text)
    elif setting.schema["type"] == "integer":
        with suppress(ValueError):  # the check of the text explains it
            value = int(text)
    source = JobFileSource(setting.variable_name, text, {}, {})
    if problems := list(check_document(value, source, setting.schema)):
        raise InputError(*(problem._replace(line=0, column=0, excerpt="") for problem in problems))
    return value
