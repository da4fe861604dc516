"""The cmd plugin: shell lines at the events of a task."""

from __future__ import annotations

from kedge.contract import BEFORE_STOP, CONTAINER_EXIT, TASK_FAILS, TASK_STARTS, TASK_SUCCEEDS, Callback
from kedge.light.types import Any, Mapping
from kedge.plugins.base import Steps, lines
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, list_of, one_of, read, string, text

EVENT_SPELLINGS = {
    "taskStarts": TASK_STARTS,
    "containerStart": TASK_STARTS,
    "containerStarts": TASK_STARTS,
    "taskSucceeds": TASK_SUCCEEDS,
    "taskFails": TASK_FAILS,
    "containerExit": CONTAINER_EXIT,
    "containerExits": CONTAINER_EXIT,
    "beforeStop": BEFORE_STOP,
}
_CALLBACK = (
    Parameter("event", one_of(*EVENT_SPELLINGS), "when to run the lines", required=True),
    Parameter("commands", list_of(text), "the shell lines", required=True),
    Parameter("service", string, "a name: the lines are a program that runs beside the task's command"),
)


def callback(value: object) -> Callback:
    """Reads `{event, commands}`."""
    if not isinstance(value, Mapping):
        raise ParameterError("must be a mapping with 'event' and 'commands'")
    values = read(_CALLBACK, value)
    event, service = EVENT_SPELLINGS[values["event"]], values["service"]
    if service is not None and event != TASK_STARTS:
        raise ParameterError(Wrong(f"services start at {TASK_STARTS}, not at {values['event']}", ("service",)))
    return Callback(event, lines(values["commands"]), service=service)


class Cmd:
    """`preCommands` and `postCommands`, or `callbacks`: a list of `{event, commands}`."""

    parameters = (
        Parameter("preCommands", list_of(text), "shell lines to run before the task's commands", default=()),
        Parameter("postCommands", list_of(text), "shell lines to run after the commands succeeded", default=()),
        Parameter("callbacks", list_of(callback), "shell lines to run at events, in order", default=()),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        short_forms = ((TASK_STARTS, values["preCommands"]), (TASK_SUCCEEDS, values["postCommands"]))
        expanded = tuple(Callback(event, lines(written)) for event, written in short_forms if written)
        if expanded and values["callbacks"]:
            message = "'callbacks' cannot be combined with 'preCommands' and 'postCommands'"
            raise ParameterError(Wrong(message, ("callbacks",), is_key=True))
        return Steps(tuple(callback for callback in values["callbacks"] if callback.script) + expanded)
