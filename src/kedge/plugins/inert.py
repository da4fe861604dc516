"""Plugins that have no effect in this version: their parameters are checked, and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.plugins.base import Steps
from kedge.plugins.parameters import (
    Parameter,
    ParameterError,
    Wrong,
    boolean,
    integer,
    list_of,
    mapping_of,
    number,
    string,
    text,
)


class _Inert:
    def steps(self, values: Mapping[str, Any]) -> Steps:
        return Steps(inert=True)


class Ssh(_Inert):
    """ssh between the tasks of a job, and for its user."""

    parameters = (
        Parameter("jobssh", boolean, "whether the job's tasks can reach each other by ssh", default=False),
        Parameter("sshbarrier", boolean, "whether tasks wait until all others are reachable", default=False),
        Parameter("sshbarrierTimeout", number(minimum=0), "how long they wait, in minutes", default=30.0),
        Parameter("userssh", mapping_of(text), "a public key of the user: type and value", default={}),
        Parameter("publicKeys", list_of(text), "more public keys", default=()),
    )


class Tensorboard(_Inert):
    """TensorBoard beside the first task."""

    parameters = (
        Parameter("port", integer(1, 65535), "the port that it listens on"),
        Parameter("logdir", mapping_of(string), "paths of log folders, by name"),
    )

    def steps(self, values: Mapping[str, Any]) -> Steps:
        """Either both parameters or neither; without parameters it is not started."""
        missing = [name for name, value in values.items() if not value]
        if len(missing) == 1:
            raise ParameterError(Wrong(f"the parameter {missing[0]!r} is missing or empty", (missing[0],)))
        return super().steps(values)
