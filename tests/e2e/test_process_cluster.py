"""The behaviours that all engines share, with agents beside the tasks: what every cluster engine has in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kedge.testing import conformance
from kedge.testing.command import Kedge
from kedge.testing.conformance import environment, folders, hooks, limits, logs, policies, stops

MODULES = Path(__file__).parents[1] / "engines"
# Those that an agent has a part in. A cluster's own tests have all of them.
BEHAVIOURS = {**environment.BEHAVIOURS, **folders.BEHAVIOURS, **hooks.BEHAVIOURS}
# What cannot be where no folder is shared and each attempt of a task has a place of its own.
JOB_FOLDER = (  # its tasks write to the folder of the job, which an engine must bring itself
    "the job's folder survives retries of the job",
    "the job's folder survives retries of a task",
    "tasks that write the same files of their code lose nothing",
    "the first success of a role can end the job",
    "a time limit while the controller is suspended",
    "a notice of the place where the job runs",
    "a peer that fails because a task is stopped at a limit is not the cause",
)
ONE_COPY = ("all tasks can share one copy of the code",)
OLD_ADDRESS = ("peers reach a task that was retried alone",)  # they know only the first one of it
NO_CONTROLLER = ("a job whose controller was killed",)  # its agents wait for another one, for an hour
NOT_APART = {*JOB_FOLDER, *ONE_COPY, *OLD_ADDRESS, *NO_CONTROLLER}
# Those that see what the controller gets of a task, and what it does to one.
OVER_THE_LINK = {
    name: each
    for part in (environment, folders, logs, policies, stops, limits)
    for name, each in part.BEHAVIOURS.items()
    if name not in NOT_APART
}


def kedge_of(folder: Path, engine: str) -> Kedge:
    package = folder / "site" / "kedge_process-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: kedge-process\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[kedge.engines]\n"
        "process = cluster.process_engine:ProcessEngine\nmirroring = cluster.process_engine:MirroringEngine\n"
    )
    jobs = folder / "jobs"
    jobs.mkdir()
    made = Kedge(jobs, engine=engine)
    made.environment["PYTHONPATH"] = os.pathsep.join(map(str, (package.parent, MODULES)))
    return made


def check(tmp_path: Path, engine: str, behaviour: Callable[[Kedge], None]) -> None:
    if "busybox" in str(behaviour) and not shutil.which("busybox"):
        pytest.skip("peers talk through busybox, which this machine does not have")
    with closing(kedge_of(tmp_path, engine)) as kedge:
        behaviour(kedge)


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_behaviour(tmp_path: Path, behaviour: Callable[[Kedge], None]) -> None:
    check(tmp_path, "process", behaviour)


@pytest.mark.parametrize("behaviour", OVER_THE_LINK.values(), ids=OVER_THE_LINK)
def test_behaviour_without_a_shared_folder(tmp_path: Path, behaviour: Callable[[Kedge], None]) -> None:
    check(tmp_path, "mirroring", behaviour)


def test_what_cannot_be_is_a_part_of_the_kit() -> None:
    assert set(conformance.BEHAVIOURS) >= NOT_APART
