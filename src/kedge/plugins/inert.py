"""Plugins that have no effect in this version: their parameters are checked, and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.plugins.base import Steps
from kedge.plugins.parameters import (
    Parameter,
    boolean,
    list_of,
    mapping_of,
    number,
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
