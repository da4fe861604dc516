"""The rules that come with kedge, loaded from their compiled form. Imports little: it runs beside every task."""

from __future__ import annotations

import json
import os
from typing import Any

from kedge.diagnose.rules.ruleset import RuleSet

COMPILED = os.path.join(os.path.dirname(__file__), "compiled.json")


def content() -> dict[str, Any]:
    """{"causes": {name: table}, "rules": [compiled rule]}"""
    with open(COMPILED, "rb") as file:
        data: dict[str, Any] = json.loads(file.read())
    return data


def is_around(cause: str) -> bool:
    """Whether a cause lies outside the program and its environment: in networks, services, other jobs or machines. Each
    try may then end differently."""
    return content()["causes"].get(cause, {}).get("around", False) is True


def packaged() -> RuleSet:
    """The packaged rules, ready to use."""
    data = content()
    return RuleSet(data["causes"], data["rules"])
