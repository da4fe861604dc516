"""Two controllers of one run live at once: the job was queued again while the node of the first one was cut off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kedge.runs import events
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, ClusterScene, plan
from .test_agent_losses import WAITS, go
from .test_takeover import PROGRAM, submitted

DECISIONS = (JobEvent.ATTEMPT_STARTED, JobEvent.TASK_COMPLETED, JobEvent.ATTEMPT_COMPLETED, JobEvent.JOB_COMPLETED)


@pytest.fixture(autouse=True)
def no_agents_stay(scene: ClusterScene) -> Iterator[None]:
    """A cluster ends the agents of an allocation that is over. This one leaves them to their controller."""
    yield
    log = str(scene.files.folder / "agents.log")
    for path in Path("/proc").glob("[0-9]*/fd/1"):
        with suppress(OSError):
            if os.readlink(path) == log:
                os.kill(int(path.parts[2]), signal.SIGKILL)


def controller(scene: ClusterScene, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(scene.run.path), *args], stderr=subprocess.PIPE, text=True
    )


def left(process: subprocess.Popen[str]) -> bool:
    """Whether it ends because of another one."""
    said = process.communicate(timeout=60)[1]
    return process.returncode == 1 and "has taken over the run j-1; this one exits" in said


def succeeded(process: subprocess.Popen[str]) -> bool:
    return not process.communicate(timeout=60)[1] and process.returncode == 0


def notes(scene: ClusterScene) -> list[Any]:
    return [event["text"] for event in events.read(scene.run.events) if event["event"] == JobEvent.NOTE]


def first(scene: ClusterScene, *args: str) -> subprocess.Popen[str]:
    """The controller of the first allocation, whose task waits."""
    submitted(scene, plan(WAITS, job_retries=1))
    process = controller(scene, *args)
    scene.wait_for_log(W0, "ready")
    return process


def check_end(scene: ClusterScene) -> None:
    """The second controller has made all decisions since it came, each once."""
    found = list(events.read(scene.run.events))
    (at,) = (n for n, event in enumerate(found) if event["event"] == JobEvent.CONTROLLER_RESTARTED)
    after = [event["event"] for event in found[at:] if event["event"] in DECISIONS]
    lost = [JobEvent.TASK_COMPLETED, JobEvent.ATTEMPT_COMPLETED]
    assert after == [*lost, JobEvent.ATTEMPT_STARTED, *lost, JobEvent.JOB_COMPLETED]
    assert found[-1]["state"] == State.SUCCEEDED
    assert scene.log(W0, attempt=1) == "ready\ndone\n"


@pytest.mark.parametrize("locks", ["locked", "unlocked"])
def test_the_older_controller_leaves(scene: ClusterScene, locks: str) -> None:
    old = first(scene, "0", locks)
    new = controller(scene, "1", locks)
    assert left(old)
    scene.wait_for_log(W0, "ready", attempt=1)
    go(scene)
    assert succeeded(new)
    check_end(scene)
    told = [note for note in notes(scene) if "without file locks on this node (No locks available)" in note]
    assert len(told) == (2 if locks == "unlocked" else 0)


def test_one_that_is_suspended_holds_up_nothing_and_leaves_when_it_goes_on(scene: ClusterScene) -> None:
    old = first(scene)
    old.send_signal(signal.SIGSTOP)
    new = controller(scene, "1")
    scene.wait_for_log(W0, "ready", attempt=1)
    assert [note for note in notes(scene) if "is locked by another process" in note]
    old.send_signal(signal.SIGCONT)
    assert left(old)
    go(scene)
    assert succeeded(new)
    check_end(scene)


def test_one_of_an_earlier_allocation_that_is_started_again_leaves_at_once(scene: ClusterScene) -> None:
    submitted(scene, plan(WAITS))
    new = controller(scene, "1")
    scene.wait_for_log(W0, "ready")
    recorded = scene.run.events.read_bytes()
    assert left(controller(scene, "0"))
    assert scene.run.events.read_bytes() == recorded
    go(scene)
    assert succeeded(new)


def test_a_claim_that_cannot_be_read_proves_nothing(scene: ClusterScene) -> None:
    old = first(scene)
    scene.files.controller.write_text("{")
    beat = scene.files.heartbeat.stat().st_mtime_ns
    wait_until(lambda: scene.files.heartbeat.stat().st_mtime_ns > beat, 120)
    go(scene)
    assert succeeded(old)


def test_one_that_does_not_see_the_claim_and_lives_keeps_the_run(scene: ClusterScene) -> None:
    old = first(scene, "0", "blind")
    new = controller(scene, "1")
    said = new.communicate(timeout=60)[1]
    assert (new.returncode, f"pid {old.pid} on" in said, "still controls the run" in said) == (1, True, True)
    go(scene)
    assert succeeded(old)
    assert list(events.read(scene.run.events))[-1]["state"] == State.SUCCEEDED


def test_one_that_claims_late_does_not_keep_the_run(scene: ClusterScene) -> None:
    """It was suspended between its look for a later claim and its own one."""
    submitted(scene, plan(WAITS, job_retries=1))
    new = controller(scene, "1")
    scene.wait_for_log(W0, "ready")
    claim = scene.files.object(scene.files.controller)
    scene.files.write(scene.files.controller, {**claim, "controller": "the late one", "allocation": 0})
    wait_until(lambda: scene.files.object(scene.files.controller) == claim, 120)
    go(scene)
    assert succeeded(new)
