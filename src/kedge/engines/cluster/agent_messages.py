"""What the agents of tasks say about their supervisors. Like all that comes from a task, it is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kedge.contract import Report
from kedge.engines.base import Task
from kedge.engines.controller import reports, supervisor_events
from kedge.engines.controller.supervisor_events import SupervisorUpdate

LONGEST_TEXT = 10_000  # characters
_LONGEST_LINE = 4 * supervisor_events.LONGEST_LINE  # as JSON, in which a character may take more bytes than in UTF-8


class AgentEnd(NamedTuple):
    """The end of a supervisor: its report, if there is one, its exit code (-n for signal n, None if that is not known),
    and what the agent has to say about it."""

    report: Report | None
    code: int | None
    text: str


def end(said: Mapping[str, Any]) -> AgentEnd:
    """What an agent says about the end of a supervisor."""
    code, text = said.get("code"), said.get("text")
    report = reports.of_json(said["report"]) if isinstance(said.get("report"), dict) else None
    return AgentEnd(report, code if type(code) is int else None, text[:LONGEST_TEXT] if isinstance(text, str) else "")


def update(said: Mapping[str, Any], task: Task) -> SupervisorUpdate | None:
    """The update in an event of the task's supervisor; None if it has none, is longer than any, or is not about this
    task: an agent speaks for its own task only."""
    try:
        found = supervisor_events.update(said["line"])
        if len(json.dumps(said["line"])) > _LONGEST_LINE:
            return None
    except supervisor_events.MALFORMED:
        return None
    return found if found and found.task == task else None
