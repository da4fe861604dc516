"""A controller that may not open enough files for its tasks."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from kedge.engines.cluster import descriptors
from kedge.errors import EXIT_CANNOT_RUN, CannotRun
from kedge.runs import events, status
from kedge.states import State

from .scene import ClusterScene, plan
from .test_full_disk import PROGRAM, submit


def test_a_job_with_more_tasks_than_connections_are_possible_says_so_at_once(scene: ClusterScene) -> None:
    """It would wait ten minutes for the tasks that cannot connect, and then name these."""
    submit(scene, plan("true", 40))
    ended = subprocess.run(
        [sys.executable, PROGRAM, scene.run.path],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXIT_CANNOT_RUN, ended.stderr
    now = status.fold(events.read(scene.run.events))
    assert now.state == State.FAILED
    assert "the controller of 40 tasks needs 88 open files, but its limit on the node " in (now.text or "")
    assert not scene.files.secrets.exists()


def test_tasks_whose_files_come_over_the_link_need_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1100, 1100))
    descriptors.check(1000, mirrored=False)
    with pytest.raises(CannotRun, match="1000 tasks needs 3048 open files"):
        descriptors.check(1000, mirrored=True)
