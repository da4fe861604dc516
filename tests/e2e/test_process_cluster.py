"""The behaviours that all engines share, with agents beside the tasks: what every cluster engine has in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kedge.testing.command import Kedge
from kedge.testing.conformance import environment, folders, hooks, logs, policies

MODULES = Path(__file__).parents[1] / "engines"
# Those that an agent has a part in. A cluster's own tests have all of them.
BEHAVIOURS = {**environment.BEHAVIOURS, **folders.BEHAVIOURS, **hooks.BEHAVIOURS}
# What needs the run folder, and does not travel over the link: the code, and the folder that all tasks share.
SHARED = (
    "code next to the job file becomes the working directory",
    "a folder on the command line becomes the working directory",
    "all tasks can share one copy of the code",
    "tasks that write the same files of their code lose nothing",
    "a retry starts with fresh code",
    "a task that is retried alone starts with fresh code",
    "the job's folder survives retries of the job",
    "the job's folder survives retries of a task",
)
# Those that see what the controller gets of a task. Hooks are a supervisor's own.
OVER_THE_LINK = {
    **{name: each for name, each in {**environment.BEHAVIOURS, **folders.BEHAVIOURS}.items() if name not in SHARED},
    **logs.BEHAVIOURS,
    **{name: each for name, each in policies.BEHAVIOURS.items() if "exit spec" in name},
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


def test_what_needs_a_shared_folder_is_a_part_of_the_kit() -> None:
    assert set(SHARED) <= set(BEHAVIOURS)
