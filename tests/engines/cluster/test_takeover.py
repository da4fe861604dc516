"""Controllers are killed while real agents and supervisors go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from kedge.jobs import runs
from kedge.plan.lossless import to_lossless
from kedge.plan.model import Plan
from kedge.runs import events, liveness, report, status
from kedge.runs.events import EventLog
from kedge.runs.folder import RunInfo
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, ClusterScene, plan

PROGRAM = Path(__file__).with_name("controller_program.py")
# Each start is one line. The second task fails twice in the first attempt of the job, once all three have started.
COMMAND = """
echo $FC_FRAMEWORK_ATTEMPT_ID $PAI_TASK_INDEX $FC_TASK_ATTEMPT_ID >> $TEST_SHARED/starts
until [ $(grep -c "^$FC_FRAMEWORK_ATTEMPT_ID . 0" $TEST_SHARED/starts) = 3 ]; do sleep 0.05; done
sleep 0.2
[ $PAI_TASK_INDEX != 1 ] || [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]
"""
STARTS = ["0 0 0", "0 1 0", "0 1 1", "0 2 0", "1 0 0", "1 1 0", "1 2 0"]


def submitted(scene: ClusterScene, made: Plan) -> None:
    scene.files.write(scene.files.link, scene.keys.to_json())
    scene.files.write(scene.files.orders, {"plan": to_lossless(made)})
    with EventLog(scene.run.events) as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={role.name: role.instances for role in made.roles})


def controller(scene: ClusterScene) -> subprocess.Popen[bytes]:
    mirrored = {} if scene.mirrored is None else {"MIRRORED": str(scene.mirrored)}
    return subprocess.Popen([sys.executable, str(PROGRAM), str(scene.run.path)], env={**os.environ, **mirrored})


def recorded(scene: ClusterScene) -> int:
    return sum(1 for _ in events.read(scene.run.events))


def kill_after(scene: ClusterScene, count: int) -> None:
    """Run a controller until it has recorded so many events, and kill it."""
    process, before = controller(scene), recorded(scene)
    wait_until(lambda: process.poll() is not None or recorded(scene) >= before + count, 60)
    process.send_signal(signal.SIGKILL)
    process.wait(30)


def finish(scene: ClusterScene) -> status.JobStatus:
    if not liveness.has_end(scene.run):
        assert controller(scene).wait(60) == 0
    return status.fold(events.read(scene.run.events))


def test_controllers_that_are_killed_change_nothing_for_the_tasks(scene: ClusterScene) -> None:
    submitted(scene, plan(COMMAND, 3, gang=False, job_retries=1, taskRetryCount=1))
    chance = random.Random(0)
    for _ in range(6):
        kill_after(scene, chance.randint(1, 6))
    now = finish(scene)
    assert (now.state, now.attempt) == (State.SUCCEEDED, 1)
    assert sorted((scene.shared / "starts").read_text().splitlines()) == STARTS
    assert [(task.attempts, task.tries) for task in now.tasks] == [(1, 2), (1, 3), (1, 2)]
    assert "the job's controller was started again" in now.notes[-1]


def test_a_controller_killed_before_the_report_leaves_its_verdict(scene: ClusterScene) -> None:
    """This program ends where a controller may be killed: the end is recorded, and there is no report yet."""
    made = plan("echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'; exit 1")
    submitted(scene, made)
    scene.run.save(RunInfo(scene.run.id, "j", "me", "process", "2026-01-01T00:00:00.000000Z", "1", "job.yaml"))
    assert controller(scene).wait(60) == 0
    assert not report.exists(scene.run)
    shown = report.read(scene.run)
    now = runs.wait(scene.run)
    written = json.loads((scene.run.path / "report.json").read_text())
    assert shown
    assert shown.to_json() == written
    assert (now.state, written["root"]["task"], written["root"]["cause"]) == (State.FAILED, "w:0", "gpu_oom")
    assert str(scene.run.task("w", 0, 0)) in written["root"]["evidence"][0]["file"]
    assert not scene.files.orders.exists(), "what is removed at the end"


def test_a_task_that_ends_while_there_is_no_controller_is_not_lost(scene: ClusterScene) -> None:
    submitted(scene, plan("echo here; cat $TEST_SHARED/gate; exit 3"))
    gate = scene.shared / "gate"
    os.mkfifo(gate)
    process = controller(scene)
    scene.wait_for_log(W0, "here")
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    gate.write_text("go\n")
    wait_until(lambda: scene.has_written_report(W0), 120)
    now = finish(scene)
    assert (now.state, now.tasks[0].exit_code, now.tasks[0].tries) == (State.FAILED, 3, 1)
    assert scene.log(W0) == "here\ngo\n"
