"""The rules that come with kedge, loaded from their compiled form. Imports little: it runs beside every task."""

from __future__ import annotations

import os

from kedge.diagnose.rules import compiled_rules
from kedge.diagnose.rules.compiled_rules import CompiledRules
from kedge.diagnose.rules.ruleset import RuleSet
from kedge.light.functools import cache
from kedge.light.types import Any, Mapping

COMPILED = os.path.join(os.path.dirname(__file__), "compiled.json")


def content() -> CompiledRules:
    """The packaged causes and rules."""
    with open(COMPILED, "rb") as file:
        return compiled_rules.parse(file.read())


@cache
def _causes() -> Mapping[str, Any]:
    return content().causes


def is_around(cause: str) -> bool:
    """Whether a cause lies outside the program and its environment: in networks, services, other jobs or machines. Each
    try may then end differently."""
    return _causes().get(cause, {}).get("around", False) is True


def packaged() -> RuleSet:
    """The packaged rules, ready to use."""
    return RuleSet(content())
