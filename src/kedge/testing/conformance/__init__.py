"""What every engine does in the same way: the job, and what is seen of it.

Behaviours are by name; each takes the `kedge` of the engine and raises AssertionError. Their commands are POSIX sh
that busybox runs, too; those that need a network start `busybox` by that name.

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
