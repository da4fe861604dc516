"""Gangs without a queue: a job that gets only some of its places gives all of them back, and tries again later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kedge.policy.retry import CONFLICT_DELAY_SEC
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.wait import wait_until

from ...cluster.scene import plan
from .driver_scene import DriverScene

FULL = "0/2 nodes are available: 2 Insufficient cpu."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"barrier": "4s"}, "the tasks could not start: after 4 s, 1 of 2 tasks is not ready"),
        ({"pending": "2s"}, "no node of the cluster could take the task in time"),
    ],
)
def test_what_a_gang_has_is_given_back_if_the_rest_has_no_place(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with DriverScene.made(tmp_path, plan("true", 2), **options) as scene:
        scene.kubelet.absent.add("j-1-a0-w-1")
        driver = scene.start(scene.new_pod())
        wait_until(lambda: scene.fake.find("Pod", "j-1-a0-w-1") is not None, 60)
        scene.fake.nodes.unschedulable("j-1-a0-w-1", FULL)
        wait_until(lambda: scene.count(JobEvent.JOB_RETRYING) == 1, 60)
        wait_until(lambda: scene.kubelet.pods() == [], 60)
        assert scene.kubelet.started == ["j-1-a0-w-0"], "it ran and was given back without a start of its task"
        (ended,) = [each for each in scene.recorded() if each["event"] == JobEvent.ATTEMPT_COMPLETED]
        assert ended["code"] == 251
        said = [each["message"] for each in scene.recorded() if each["event"] == JobEvent.TASK_COMPLETED]
        assert any(words in text and "2 have too little CPU free" in text for text in said), said
        (retry,) = [each for each in scene.recorded() if each["event"] == JobEvent.JOB_RETRYING]
        assert CONFLICT_DELAY_SEC[0] <= retry["delay_sec"] <= CONFLICT_DELAY_SEC[1]
        assert "is transient, after a conflict" in retry["why"]
        scene.ask("1", "stop")
        assert scene.finish(driver).state == State.STOPPED
