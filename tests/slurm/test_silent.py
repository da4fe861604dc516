"""Agents that do not answer any more."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kedge.testing.wait import wait_until

from .kedge_on_slurm import OnSlurm
from .test_jobs import WAITS

WORKERS = {"worker": {"instances": 2, "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}}}


def agents(kedge: OnSlurm, run: str, index: int) -> Iterator[int]:
    """The keeper of a task's agent, and the agent."""
    conf = kedge.slurm.variables["SLURM_CONF"]  # other clusters on this machine have jobs with the same number
    lines = (f"SLURM_CONF={conf}", f"SLURM_JOB_ID={kedge.number(run)}", f"SLURM_PROCID={index}")
    wanted = {line.encode() for line in lines}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted <= {*(path / "environ").read_bytes().split(b"\0")} and b"--index-variable" in (
                path / "cmdline"
            ).read_bytes().split(b"\0"):
                yield int(path.name)


def test_a_task_with_a_silent_agent_is_killed_alone(kedge: OnSlurm) -> None:
    run = kedge("run", "-d", kedge.job(WAITS, roles=WORKERS)).stdout.strip()
    for index in (0, 1):
        kedge.wait_for_output("ready", f"worker-{index}")
    found = list(agents(kedge, run, 1))
    assert len(found) == 2
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    kedge("stop", "--kill", run)
    log = kedge.jobs / run / "cluster" / "step-0-worker.log"
    wait_until(lambda: "task 1: Killed" in log.read_text(), 60.0, "the end of the silent task")
    kedge.execute(("wait", run), kedge.environment)
    assert "CANCELLED" not in log.read_text()
    assert not list(agents(kedge, run, 1))
    assert not list(Path(tempfile.gettempdir()).glob(f"kedge-agent-*{run}-0-worker-1*"))
    assert kedge.leftovers() == []
