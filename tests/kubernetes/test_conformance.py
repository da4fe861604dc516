"""The behaviours that all engines share, on a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kedge.testing.conformance import BEHAVIOURS

from .kedge_on_kubernetes import OnKubernetes

# Tasks here share no folder with each other or with this machine, so these are behaviours that need none. What a
# supervisor does by itself is the same program on every engine, so of that there are only some.
NAMES = (
    "a command that succeeds",
    "the first command that fails ends the task",
    "the user's exit code is kept and the container's code is OpenPAI's",
    "background processes end with their task",
    "each stream has a log and both share a combined log",
    "variables describe the task and its job",
    "all tasks see the same addresses",
    "peers reach each other at their ports in every attempt",
    "a secret reaches the task and no file that is kept",
    "code next to the job file becomes the working directory",
    "variables that a hook exports reach the command",
    "a service runs beside the command until its task has ended",
    "the first failure of a role fails the job",
    "unknown failures are retried jobRetryCount times",
    "without gang allocation a task is retried alone",
    "a sure permanent cause is never retried",
    "a job in the background is stopped",
    "the grace period ends with a kill",
    "signal, target and grace period of a role",
    "processes in other sessions are ended, too",
    "a stop without grace kills at once",
    "Ctrl-C lets every task end gracefully",
)


@pytest.mark.parametrize("behaviour", [pytest.param(BEHAVIOURS[name], id=name) for name in NAMES])
def test_behaviour(kedge: OnKubernetes, behaviour: Callable[[OnKubernetes], None]) -> None:
    behaviour(kedge)
