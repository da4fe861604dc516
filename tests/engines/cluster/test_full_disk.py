"""The file system of the run folder is full, at any moment of a job in a cluster, with its real batch script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import batch_body
from kedge.errors import EXIT_CANNOT_RUN
from kedge.plan.lossless import to_lossless
from kedge.plan.model import Plan
from kedge.runs import disk_reserve, events, status
from kedge.runs.events import EventLog
from kedge.runs.folder import RunInfo
from kedge.runs.job_events import JobEvent
from kedge.states import State

from .scene import W0, ClusterScene, plan
from .test_agent_losses import WAITS, go

PROGRAM = Path(__file__).with_name("in_cluster_program.py")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[ClusterScene]:
    """One whose run folder is on a file system of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], check=False).returncode:
        pytest.skip("only root can mount a small file system")
    yield ClusterScene.made(disk)
    subprocess.run(["umount", "--lazy", disk], check=True)


def submit(scene: ClusterScene, made: Plan) -> None:
    scene.files.write(scene.files.link, scene.keys.to_json())
    scene.files.write(scene.files.orders, {"engine": "process", "options": {}, "plan": to_lossless(made)})
    scene.files.write(scene.files.secrets, {"document": {}, "texts": {}})
    scene.run.save(RunInfo(scene.run.id, "j", "me", "process", "2026-01-01T00:00:00.000000Z", "1", "job.yaml"))
    disk_reserve.make(scene.run.path)
    with EventLog(scene.run.events) as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={role.name: role.instances for role in made.roles})


def batch(scene: ClusterScene, bundle: Path) -> subprocess.Popen[str]:
    """The batch script of the job."""
    bundle.mkdir()
    starts = bundle / "starts"
    (bundle / "controller").write_text(f'#!/bin/sh\necho start >> {starts}\nexec {sys.executable} {PROGRAM} "$1"\n')
    (bundle / "controller").chmod(0o755)
    script = "\n".join(batch_body.body(str(scene.run.path), str(bundle), SlurmOptions()))
    return subprocess.Popen(["sh", "-c", script], stderr=subprocess.PIPE, text=True)


def fill(scene: ClusterScene) -> None:
    """Leave no free block."""
    fd = os.open(scene.run.path.parent / "fill", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(fd, bytes(4096))
    except OSError:
        return
    finally:
        os.close(fd)


def fill_page(path: Path) -> None:
    """Leave no room in the last block of a log either."""
    line = json.dumps({"event": "x", "text": ""}) + "\n"
    room = -(path.stat().st_size + len(line)) % 4096
    with path.open("a") as file:
        file.write(json.dumps({"event": "x", "text": room * "x"}) + "\n")
    assert path.stat().st_size % 4096 == 0


def check(scene: ClusterScene, process: subprocess.Popen[str], bundle: Path) -> None:
    said = process.communicate(timeout=90)[1]
    assert (process.returncode, (bundle / "starts").read_text()) == (EXIT_CANNOT_RUN, "start\n"), said
    assert "Traceback" not in said
    for name in ("run.json", "cluster/controller.json", "cluster/address.json", "report.json"):
        if (scene.run.path / name).exists():
            json.loads((scene.run.path / name).read_text())
    assert list(scene.run.path.rglob(".*.new")) == []
    assert not scene.files.secrets.exists()
    assert all(json.loads(line) for line in scene.run.events.read_bytes().splitlines())


def check_end(scene: ClusterScene, text: str) -> None:
    """What the user sees."""
    now = status.fold(events.read(scene.run.events))
    assert (now.state, text in (now.text or "")) == (State.FAILED, True), now


def test_it_is_full_before_the_controller_starts(scene: ClusterScene, tmp_path: Path) -> None:
    submit(scene, plan("true"))
    fill_page(scene.run.events)
    fill(scene)
    bundle = tmp_path / "bundle"
    check(scene, batch(scene, bundle), bundle)
    check_end(scene, "file system is full")


def test_it_becomes_full_while_a_task_runs(scene: ClusterScene, tmp_path: Path) -> None:
    submit(scene, plan(f"{WAITS}; head -c 8000000 /dev/zero | tr '\\0' x"))
    bundle = tmp_path / "bundle"
    process = batch(scene, bundle)
    scene.wait_for_log(W0, "ready")
    fill(scene)
    go(scene)  # tmpfs has room for a name
    check(scene, process, bundle)
    check_end(scene, "No space left on device")
