"""Jobs for the tests of what is rendered for Slurm. Each has a golden file: its batch script and its srun lines.

After a change that is wanted: `python -m tests.engines.slurm.jobs` writes the golden files again.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import render
from kedge.engines.slurm.script.render import SlurmPlace
from kedge.jobs.preparation import prepare
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs, Mount

GOLDEN = Path(__file__).parent / "golden"
PLACE = SlurmPlace("train-abc2345", "/shared/kedge/jobs/train-abc2345", "/shared/kedge/bundles/1f2e3d")
STRANGE = SlurmPlace("train-abc2345", "/shared/o'brien's 100% \"own\" #1/train-abc2345", "/shared/a $b/bundle")


class Case(NamedTuple):
    """A job: resources of its roles, its extras, what the engine is told, and where it runs."""

    roles: Mapping[str, dict[str, Any]]
    options: SlurmOptions = SlurmOptions()
    extras: Mapping[str, Any] = {}
    mounts: tuple[Mount, ...] = ()
    place: SlurmPlace = PLACE

    @property
    def plan(self) -> Plan:
        return replace(planned(self.roles, self.extras), mounts=self.mounts)


def role(instances: int, cpu: float, memory_mb: int, gpu: int = 0) -> dict[str, Any]:
    return {"instances": instances, "resourcePerInstance": {"cpu": cpu, "memoryMB": memory_mb, "gpu": gpu}}


def planned(roles: Mapping[str, dict[str, Any]], extras: Mapping[str, Any] | None = None) -> Plan:
    """The plan of a job with these roles."""
    usual = {"dockerImage": "image", "commands": ["python train.py"]}
    document = {
        "protocolVersion": 2, "name": "train", "type": "job", "extras": dict(extras or {}),
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "registry.example.org/vision/torch:2.3"}],
        "taskRoles": {name: {**usual, **own} for name, own in roles.items()},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(yaml.safe_dump(document))
        return prepare(str(path), Inputs(user="ada")).plan


_STORAGES = (Mount("data", "/data", read_only=True, folder="/lustre/data"), Mount("out", "/out", folder="/lustre/out"))
CASES = {
    "one-role": Case({"worker": role(2, 4, 8192)}),
    "same-shape": Case({"chief": role(1, 2, 1000), "worker": role(3, 1.5, 1000)}),
    "ps-worker-gpus": Case(
        {"ps": role(2, 4, 16384), "worker": role(4, 8, 65536, 2)},
        SlurmOptions(gres="gpu:a100"),
        {"kedge": {"timeLimit": "1d", "warnBefore": "5m"}},
    ),
    "pyxis": Case({"worker": role(2, 8, 32768, 1)}, SlurmOptions(container="pyxis"), mounts=_STORAGES),
    "apptainer": Case({"worker": role(2, 8, 32768, 1)}, SlurmOptions(container="apptainer"), mounts=_STORAGES),
    "everything": Case(
        {"worker": role(2, 1, 1024)},
        SlurmOptions(
            partition="gpu,gpu-long", account="vision", qos="high", time="2d", constraint="a100&ib",
            reservation="course", exclusive=True, gres="gpu:a100", requeue=True, sbatch=["--licenses=matlab:1"],
            prologue=[". /etc/profile.d/modules.sh", "module load cuda/12"], epilogue=["module purge"],
            commands="/opt/slurm/bin", conf="/opt/slurm/etc/slurm.conf", link_ports="20000-20099",
        ),
        place=STRANGE,
    ),
}  # fmt: skip


def text(case: Case) -> str:
    """What is shown of a case: the batch script, and below it the srun lines as comments."""
    plan = case.plan
    steps = (shlex.join(render.step(plan, role.name, case.options, case.place)) for role in plan.roles)
    return render.script(plan, case.options, case.place) + "".join(f"\n# {line}\n" for line in steps)


if __name__ == "__main__":
    for name, case in CASES.items():
        (GOLDEN / f"{name}.sh").write_text(text(case))
