"""What the submitter of a job is told about how Slurm runs it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kedge.engines.slurm import notes
from kedge.engines.slurm.engine import SlurmEngine
from kedge.engines.slurm.options import SlurmOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Mount, RemoteStorage

from .jobs import planned, role

BARE, PYXIS, APPTAINER = (SlurmOptions(container=name) for name in ("none", "pyxis", "apptainer"))


def said(plan: Plan, options: SlurmOptions = BARE, **environment: str) -> str:
    return "\n".join(notes.of(plan, options, environment))


def one(cpu: float = 1, gpu: int = 0) -> Plan:
    return planned({"worker": role(2, cpu, 100, gpu)})


def test_processes_use_no_image_and_containers_do() -> None:
    assert "the slurm engine uses no images here: tasks run as processes" in said(one())
    assert "no image" not in said(one(), PYXIS) + said(one(), APPTAINER)


def test_what_slurm_rounds_counts_and_separates() -> None:
    assert "fractions are rounded up: worker 2" in said(one(1.5))
    assert "rounded" not in said(one(2))
    assert "each role gets its own nodes" in said(planned({"a": role(1, 1, 10), "b": role(1, 2, 10)}))
    assert "nodes of its own" not in said(planned({"a": role(1, 1, 10), "b": role(5, 1, 10)}))
    assert "not by their memory" in said(one(), SlurmOptions(exclusive=True))
    assert "Slurm counts npu by node, so each node runs one task of worker" in said(one(1, 2), SlurmOptions(gres="npu"))
    assert "by node" not in said(one(1, 2))


def test_variables_of_sbatch_have_no_effect() -> None:
    found = said(one(), SBATCH_PARTITION="gpu", SLURM_CONF="/x")
    assert "SBATCH_PARTITION in your environment has no effect; use --slurm partition=…" in found
    assert "SLURM_CONF" not in found


def test_what_containers_do_not_get() -> None:
    plan = one()
    changed = replace(plan.roles[0], shm_mb=512, auth={"password": ("x",)}, capabilities=("SYS_PTRACE",))
    found = said(replace(plan, roles=(changed,)), APPTAINER)
    assert "Apptainer does not get the credentials of the image of worker" in found
    assert "shmMB has no effect with Apptainer" in found
    assert "Apptainer cannot add capabilities to containers" in found


def test_storages_are_links_of_processes_and_mounts_of_containers() -> None:
    plan = replace(one(), mounts=(Mount("data", "/data", read_only=True, folder="/lustre/data"),))
    assert "the slurm engine mounts nothing: tasks find the storages data at $KEDGE_STORAGE_DATA" in said(plan)
    assert "read-only storages are not enforced here: data" in said(plan)
    assert "data" not in said(plan, PYXIS)


def test_storages_that_tasks_cannot_have() -> None:
    far = replace(one(), mounts=(Mount("data", "/data", remote=RemoteStorage("nfs", "nas", "/export")),))
    with pytest.raises(CannotRun, match="the slurm engine mounts nothing: mount it on all nodes and set storages"):
        SlurmEngine().check(far)
    for path in ("/a:b", "/a,b"):
        odd = replace(one(), mounts=(Mount("data", path, folder="/lustre"),))
        notes.check_storages(odd, BARE)
        with pytest.raises(CannotRun, match="pyxis accepts no path with a colon or a comma, such as /a"):
            notes.check_storages(odd, PYXIS)
