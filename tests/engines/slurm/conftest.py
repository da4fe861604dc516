"""Slurm's commands without Slurm (fake_slurm), and runs that are ready to be submitted to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kedge.bundle import cache
from kedge.engines.slurm import job_table
from kedge.engines.slurm.engine import SlurmEngine
from kedge.jobs import submission
from kedge.jobs.preparation import prepare
from kedge.jobs.submission import Submitted
from kedge.resolve.model import Inputs
from kedge.runs import liveness

from . import fake_slurm

JOB = """
protocolVersion: 2
name: fake
type: job
prerequisites: [{name: image, type: dockerimage, uri: busybox}]
secrets: {token: hunter2hunter2}
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: [echo hello]
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the state of a fake Slurm, whose commands come first on PATH. What it has started is ended."""
    folder = tmp_path / "slurm"
    commands = fake_slurm.install(folder)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("KEDGE_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(job_table, "CACHED_SEC", 0.0)
    monkeypatch.setattr(liveness, "CACHED_SEC", 0.0)
    monkeypatch.setattr(liveness, "LONGEST_CACHED_SEC", 0.0)
    yield folder
    fake_slurm.end_all(folder)


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the controller that batch scripts start: a shell script whose $1 is the run folder. It is in a bundle that
    is always built anew."""
    bundle = tmp_path / "bundle"
    bundle.mkdir()

    def ensure(layers: object, before_build: Callable[[], object]) -> Path:
        before_build()
        return bundle

    monkeypatch.setattr(cache, "ensure", ensure)

    def write(script: str) -> None:
        (bundle / "controller").write_text(f"#!/bin/sh\nrun=$1\n{script}\n")
        (bundle / "controller").chmod(0o755)

    write("exit 0")
    return write


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    """A job file with a secret and two tasks."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


@pytest.fixture
def submitted(job_file: Path, slurm: Path, controller: Callable[[str], None]) -> Submitted:
    """A job with its run folder, to be started."""
    return submission.submit(prepare(str(job_file), Inputs("me")), SlurmEngine())
