"""The site's patch for pods, read from its file."""

from __future__ import annotations

import importlib
import json
from typing import Any

from kedge.errors import InputError

_SETTING = "engines.kubernetes.pod-patch"


def content(given: str) -> str:
    """The patch as JSON: that of a YAML file, or `given` if it is JSON already. InputError."""
    if given.startswith("{"):
        return given
    yaml: Any = importlib.import_module("kedge.spec.yaml")  # a driver gets JSON
    try:
        with open(given, encoding="utf-8") as file:
            document = yaml.read(file.read(), given)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"{_SETTING}: {given}: {why}") from None
    if document.problems:
        raise InputError(*document.problems)
    return json.dumps(document.value)
