"""MPI's launcher between the tasks of a job, by kedge's own ssh: a rank that fails, and a stop in the middle."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge, report

LAUNCH = "mpirun --bind-to none -H master-0:2,worker-0:1,worker-1:1"
SSH = {"plugin": "ssh", "parameters": {"jobssh": True}}


@pytest.fixture(params=[pytest.param("local", marks=pytest.mark.zoo), "container"])
def with_mpi(request: pytest.FixtureRequest) -> Kedge:
    if request.param == "container":
        found: Callable[[str], Kedge] = request.getfixturevalue("in_containers")
        return found("mpi")
    if not shutil.which("mpirun") or not importlib.util.find_spec("mpi4py"):
        pytest.skip("Open MPI (Debian: apt-get install openmpi-bin) or mpi4py is missing")
    return request.getfixturevalue("kedge")  # type: ignore[no-any-return]


def mpi_job(kedge: Kedge, script: str, **plugin: Any) -> Path:
    """A job that runs a shell script in four ranks on three tasks."""
    resources = {"cpu": 1, "memoryMB": 512, "gpu": 0}
    roles = {
        "master": {
            "commands": [f"{LAUNCH} sh -c {shlex.quote(script)}"],
            "completion": {"minSucceededInstances": 1},
            "resourcePerInstance": resources,
        },
        "worker": {"instances": 2, "commands": ["sleep infinity"], "resourcePerInstance": resources},
    }
    ssh = {**SSH, "parameters": {**SSH["parameters"], **plugin}}  # type: ignore[dict-item]
    return kedge.job("", roles=roles, extras={"com.microsoft.pai.runtimeplugin": [ssh]})


def test_the_error_of_a_rank_on_another_task_is_the_root_and_the_rank_is_named(with_mpi: Kedge) -> None:
    """mpirun alone does not always name the rank: it forgets to if the daemons end fast. MPI_Abort always does."""
    program = (
        "from mpi4py import MPI; world = MPI.COMM_WORLD; world.rank == 3 and open('/no/labels.csv'); world.barrier()"
    )
    launched = f"python -m mpi4py -c {shlex.quote(program)}"
    done = with_mpi("run", mpi_job(with_mpi, launched, sshbarrier=True), code=1)
    root = report(with_mpi)["root"]
    assert (root["task"], root["cause"], root["rank"]) == ("master:0", "data_file_missing", "rank 3")
    assert "failed first: rank 3" in done.stdout
    assert with_mpi.leftovers() == []


def test_a_stop_in_the_middle_leaves_nothing(with_mpi: Kedge) -> None:
    process = with_mpi.start("run", mpi_job(with_mpi, "echo here; sleep 1000"))
    wait_until(lambda: with_mpi.task_log("master-0").count("here") == 4, TIMEOUT)
    process.send_signal(signal.SIGINT)
    with_mpi.finish(process, 130)
    assert {task["state"] for task in report(with_mpi)["tasks"]} == {"stopped"}
    assert with_mpi.leftovers() == []
