"""The cmd plugin: shell lines before and after the user's command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kedge.contract import CONTAINER_EXIT, TASK_FAILS, TASK_STARTS, TASK_SUCCEEDS, Callback, Text

EVENT_SPELLINGS = {
    "taskStarts": TASK_STARTS,
    "containerStart": TASK_STARTS,
    "containerStarts": TASK_STARTS,
    "taskSucceeds": TASK_SUCCEEDS,
    "taskFails": TASK_FAILS,
    "containerExit": CONTAINER_EXIT,
    "containerExits": CONTAINER_EXIT,
}


class Cmd:
    """`preCommands` and `postCommands`, or `callbacks`: a list of `{event, commands}`."""

    def callbacks(self, parameters: Mapping[str, Any]) -> tuple[Callback, ...]:
        listed = [(item["event"], item["commands"]) for item in parameters.get("callbacks") or ()]
        listed += [(TASK_STARTS, parameters.get("preCommands")), (TASK_SUCCEEDS, parameters.get("postCommands"))]
        return tuple(Callback(EVENT_SPELLINGS[event], join_lines(lines)) for event, lines in listed if lines)


def join_lines(lines: Iterable[str | Text]) -> Text:
    """The lines as one text, a newline after each."""
    parts: list[Any] = []
    for line in lines:
        parts += (line, "\n") if isinstance(line, str) else (*line, "\n")
    return tuple(parts)
