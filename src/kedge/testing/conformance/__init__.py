"""The behaviours that every engine must share: how jobs run, and what users see of them.

Each behaviour has a name, takes the `kedge` of the engine and raises AssertionError. The commands of the jobs are POSIX
sh that busybox can run; those that need a network start `busybox` by that name.

    @pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
    def test_behaviour(kedge: Kedge, behaviour: Callable[[Kedge], None]) -> None:
        behaviour(kedge)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kedge.testing.command import Kedge
from kedge.testing.conformance import commands, environment, hooks, logs, policies, runs, stops

BEHAVIOURS: Mapping[str, Callable[[Kedge], None]] = {
    **commands.BEHAVIOURS,
    **logs.BEHAVIOURS,
    **environment.BEHAVIOURS,
    **hooks.BEHAVIOURS,
    **policies.BEHAVIOURS,
    **runs.BEHAVIOURS,
    **stops.BEHAVIOURS,
}
