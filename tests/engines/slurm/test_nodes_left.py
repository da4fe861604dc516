"""Whether what is left of an allocation holds the job, with a stand-in for scontrol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.in_allocation import nodes_left
from kedge.engines.slurm.options import SlurmOptions

from .jobs import planned, role

SCONTROL = """\
#!/bin/sh
case "$*" in
*hostnames*) case "$3" in 'n[1-2]') echo n1; echo n2;; *) echo "$3";; esac;;
*) cat <<'END'
{said}
END
esac
"""
PACKED = (
    "JobId=1 JobName=a NumNodes=2 NumCPUs=84 NumTasks=2 CPUs/Task=20 JOB_GRES=gpu:6 "
    "  Nodes=n[1-2] CPU_IDs=0-39 Mem=2000 GRES=gpu:2(IDX:0-1)   Nodes=n3 CPU_IDs=0-1,4-5 Mem=9 GRES= MinCPUsNode=20"
)
HET = (
    "JobId=1 HetJobId=1 HetJobOffset=0   Nodes=n1 CPU_IDs=0-3 Mem=1 GRES= \n"
    "JobId=2 HetJobId=1 HetJobOffset=1   Nodes=n2 CPU_IDs=0-7 Mem=1 GRES= "
)


def shortage(folder: Path, plan: Any, said: str, *lost: str, **options: Any) -> str:
    program = folder / "scontrol"
    program.write_text(SCONTROL.format(said=said))
    program.chmod(0o755)
    return nodes_left.shortage(SlurmSite(str(folder)), "1", plan, SlurmOptions(**options), lost)


@pytest.mark.parametrize(
    ("cpu", "gpu", "lost", "held"),
    [(20, 0, (), None), (20, 0, ("n2",), 2), (10, 0, ("n2",), None), (10, 1, ("n2",), 2), (4, 1, ("n9",), None),
     (4, 0, ("n1", "n2"), 1)],
)  # fmt: skip
def test_tasks_that_fit(tmp_path: Path, cpu: int, gpu: int, lost: tuple[str, ...], held: int | None) -> None:
    plan = planned({"worker": role(4 if gpu or cpu > 4 else 3, cpu, 64, gpu)})
    said = shortage(tmp_path, plan, PACKED, *lost)
    tasks = f"{plan.roles[0].instances} tasks of worker"
    assert said == ("" if held is None else f"the nodes that are left hold {held} of the {tasks}")


def test_gpus_that_slurm_counts_by_node(tmp_path: Path) -> None:
    plan = planned({"worker": role(2, 1, 64, 1)})
    assert not shortage(tmp_path, plan, PACKED.replace("gpu:", "card:"), gres="card")
    assert "hold 1 of the 2" in shortage(tmp_path, plan, PACKED.replace("gpu:", "card:"), "n1", gres="card")


def test_components(tmp_path: Path) -> None:
    plan = planned({"chief": role(1, 4, 64, 0), "worker": role(4, 2, 64, 0)})
    assert not shortage(tmp_path, plan, HET)
    assert shortage(tmp_path, plan, HET, "n1") == "the nodes that are left hold 0 of the 1 tasks of chief"
    assert shortage(tmp_path, plan, HET, "n2") == "the nodes that are left hold 0 of the 4 tasks of worker"


def test_slurm_does_not_say(tmp_path: Path) -> None:
    assert (
        nodes_left.shortage(
            SlurmSite(str(tmp_path)), "1", planned({"worker": role(1, 1, 64, 0)}), SlurmOptions(), ("n1",)
        )
        == ""
    )
