"""The behaviours that every engine must share: how jobs run, and what users see of them.

Each behaviour has a name, takes the `kedge` of the engine and raises AssertionError. The commands of the jobs are POSIX
sh that busybox can run; those that need a network start `busybox` by that name.

    @pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
    def test_behaviour(kedge: Kedge, behaviour: Callable[[Kedge], None]) -> None:
        behaviour(kedge)

case         one job, and what must be seen of it
commands     how a command runs and ends
environment  variables, peers, code, secrets
exec         programs of `kedge exec` beside a task
folders      results, and what the job's tasks share
holds        a failed task stays alive for its user
hooks        what runs before and after a command
limits       time limits, and what runs before one passes
logs         what a task prints is kept
policies     completion and retry
runs         the commands around a run
ssh          ssh between tasks
stops        stops from outside
storages     folders of the site
viewers      viewers that go and come back; files that are copied out and in
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kedge.testing.command import Kedge
from kedge.testing.conformance import (
    commands,
    environment,
    exec,
    folders,
    holds,
    hooks,
    limits,
    logs,
    policies,
    runs,
    ssh,
    stops,
    storages,
    viewers,
)

BEHAVIOURS: Mapping[str, Callable[[Kedge], None]] = {
    **commands.BEHAVIOURS,
    **logs.BEHAVIOURS,
    **environment.BEHAVIOURS,
    **folders.BEHAVIOURS,
    **holds.BEHAVIOURS,
    **hooks.BEHAVIOURS,
    **policies.BEHAVIOURS,
    **runs.BEHAVIOURS,
    **ssh.BEHAVIOURS,
    **stops.BEHAVIOURS,
    **storages.BEHAVIOURS,
    **viewers.BEHAVIOURS,
    **exec.BEHAVIOURS,
    **limits.BEHAVIOURS,
}
