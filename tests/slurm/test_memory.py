"""Memory that the kernel enforces, on a cluster whose steps have control groups."""

from __future__ import annotations

from .kedge_on_slurm import OnSlurm
from .test_accounting import EATS
from .test_ends import ONCE, facts

TWO = {"worker": {"instances": 2, "resourcePerInstance": {"cpu": 1, "memoryMB": 200, "gpu": 0}}}


def test_a_task_that_the_kernel_kills_for_its_memory(kedge_with_cgroups: OnSlurm) -> None:
    kedge = kedge_with_cgroups
    fails = EATS.replace("/dev/zero", "/dev/zero || exit $?")
    said = kedge("run", kedge.job(fails, roles=TWO, extras=ONCE), code=1).stdout
    assert "worker:1: host_oom_kill; not retried: host_oom_kill is permanent" in said
    assert "Ask for more host memory" in said
    codes = {event["index"]: event["user_exit_code"] for event in facts(kedge, "task-completed")}
    assert codes == {0: 143, 1: 137}  # the other one was only stopped


def test_a_task_that_was_killed_otherwise(kedge_with_cgroups: OnSlurm) -> None:
    kedge = kedge_with_cgroups
    said = kedge("run", kedge.job("kill -KILL $$", roles=TWO, extras=ONCE), code=1).stdout
    assert "host_oom_kill" not in said
    assert "sigkill_unattributed" in said
