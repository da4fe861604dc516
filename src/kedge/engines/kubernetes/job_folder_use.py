"""Whether a job uses $KEDGE_JOB_DIR, as far as its plan shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from kedge.contract import JOB_DIR_VARIABLE, Text, show_text
from kedge.plan.model import Plan, RolePlan, action_text

_NAME = re.compile(rf"\b{JOB_DIR_VARIABLE}\b")


def places(plan: Plan) -> list[str]:
    """Where the name of the variable stands: in commands, hooks and their parameters, and in values of variables. What
    programs do with it that are files of the code or of an image is not known."""
    return list(dict.fromkeys(place for role in plan.roles for place, text in _texts(role) if _NAME.search(text)))


def _texts(role: RolePlan) -> Iterator[tuple[str, str]]:
    yield f"the commands of {role.name}", show_text(role.command)
    for step in role.steps:
        for callback in step.callbacks:
            shown: Text = callback.script or action_text(callback.action)
            yield f"{step.name} of {role.name}", show_text(shown)
        yield f"{step.name} of {role.name}", json.dumps(dict(step.environment))
    for name, value in role.env.items():
        yield f"the variable {name} of {role.name}", show_text(value)
