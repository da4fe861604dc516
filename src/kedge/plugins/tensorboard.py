"""The tensorboard plugin: TensorBoard as a service beside the first task of the job."""

from __future__ import annotations

from kedge.contract import TASK_STARTS, Action, Callback
from kedge.light.types import Any, Mapping
from kedge.plugins.base import TENSORBOARD, Steps
from kedge.plugins.parameters import Parameter, ParameterError, Wrong, integer, mapping_of, string

_LABEL = "tensorboard"  # of the port that every task of the role gets


class Tensorboard:
    """TensorBoard beside the task 0 of the job's first role. Its failures are never those of the task."""

    parameters = (
        Parameter("port", integer(1, 65535), "the port that it listens on where every task has its own network"),
        Parameter("logdir", mapping_of(string), "paths of log folders, by name"),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        """Either both parameters or neither; without parameters it is not started."""
        missing = [name for name, value in values.items() if not value]
        if len(missing) == 1:
            raise ParameterError(Wrong(f"the parameter {missing[0]!r} is missing or empty", (missing[0],)))
        if missing:
            return Steps(notes=("it does not start without the parameters port and logdir",))
        action = Action(TENSORBOARD, {"port": values["port"], "logdir": dict(values["logdir"])})
        callback = Callback(TASK_STARTS, action=action, service=TENSORBOARD)
        return Steps((callback,), optional=True, ports=(_LABEL,))
