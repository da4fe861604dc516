"""The controller in an allocation is killed between writing down what it decides and doing it, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.cluster.scene import plan
from tests.engines.cluster.test_takeover import COMMAND, STARTS, submitted

from kedge import processes
from kedge.runs import events, status
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.wait import wait_until

from .slurm_scene import SlurmScene

PROGRAM = Path(__file__).with_name("controller_program.py")
ONCE = (
    JobEvent.ATTEMPT_STARTED, JobEvent.TASK_RETRYING, JobEvent.TASK_COMPLETED, JobEvent.ATTEMPT_COMPLETED,
    JobEvent.JOB_RETRYING, JobEvent.JOB_COMPLETED,
)  # fmt: skip
DECISIONS = 2 + 1 + 6 + 2 + 1 + 1


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[SlurmScene]:
    made = SlurmScene.made(tmp_path)
    made.install(tmp_path / "slurm")
    yield made
    if (made.slurm / "srun.pid").exists():
        processes.kill_tree(int((made.slurm / "srun.pid").read_text()))


def controller(scene: SlurmScene, kill_at: int) -> int:
    """The exit code of a controller that is killed before its act of this number; 0 for none."""
    variables = {**os.environ, "TEST_SHARED": str(scene.shared), "TMPDIR": str(scene.shared)}
    argv = [sys.executable, str(PROGRAM), str(scene.run.path), str(kill_at)]
    return subprocess.run(argv, env=variables, stdout=subprocess.DEVNULL, timeout=90, check=False).returncode


def decided(scene: SlurmScene) -> Counter[tuple[object, ...]]:
    """How often each decision is recorded."""
    found, attempt = Counter[tuple[object, ...]](), 0
    for event in events.read(scene.run.events):
        attempt = event.get("attempt", attempt)
        if event["event"] in ONCE:
            found[event["event"], attempt, event.get("index"), event.get("task_attempt")] += 1
    return found


# There are about 110 acts; those of the second controller are counted from its own start.
@pytest.mark.parametrize("kills", [(2, 7), (11, 21), (45, 16)])
def test_no_kill_starts_a_task_twice_loses_one_or_decides_twice(scene: SlurmScene, kills: tuple[int, ...]) -> None:
    submitted(scene, plan(COMMAND, 3, gang=False, job_retries=1, taskRetryCount=1))
    assert [controller(scene, kill) for kill in kills] == [-signal.SIGKILL] * len(kills)
    assert controller(scene, 0) == 0
    now = status.fold(events.read(scene.run.events))
    assert (now.state, now.attempt) == (State.SUCCEEDED, 1)
    assert sorted((scene.shared / "starts").read_text().splitlines()) == STARTS
    assert set(decided(scene).values()) == {1}
    assert len(decided(scene)) == DECISIONS
    srun = int((scene.slurm / "srun.pid").read_text())
    wait_until(lambda: processes.identify(srun) is None, 120)
