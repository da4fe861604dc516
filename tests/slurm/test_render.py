"""What is rendered, as a real Slurm takes it."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.slurm.script import render
from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster

_JOBS = Path(__file__).parents[1] / "engines" / "slurm" / "jobs.py"  # in a package of tests of its own
jobs = runpy.run_path(str(_JOBS))
GOLDEN, Case, Options, role = jobs["GOLDEN"], jobs["Case"], jobs["SlurmOptions"], jobs["role"]
# The others name what only other clusters have.
HERE = ("one-role", "same-shape", "pyxis", "apptainer")


@pytest.mark.parametrize("name", HERE)
def test_sbatch_accepts_the_golden_files(slurm: SlurmCluster, name: str) -> None:
    done = subprocess.run(
        ["sbatch", "--test-only", GOLDEN / f"{name}.sh"], env=slurm.environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert re.search("Job [0-9]+ to start at .* in partition main", done.stderr), done.stderr
    assert done.returncode == 0


_SWEEPS = '[ "$1" != --sweep ] || exit 0\n'  # at the end of the job


def run(slurm: SlurmCluster, folder: Path, case: Any, agent: str) -> Path:
    """Run a batch script whose controller starts all steps at once, with a line for each on stdin. Returns the folder
    of logs."""
    place = case.place._replace(folder=str(folder / "run"), bundle=str(folder / "bundle"))
    (folder / "run" / "cluster").mkdir(parents=True)
    (folder / "bundle").mkdir()
    plan = case.plan
    steps = (render.step(plan, each.name, case.options, place) for each in plan.roles)
    lines = "".join(f"{_line(step)} <<'END' &\norders of {step[-5]}\nEND\n" for step in steps)
    for name, text in (("controller", f'cd "$1"\n{lines}wait\ntouch ended'), ("agent", f"{_SWEEPS}{agent}")):
        (folder / "bundle" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bundle" / name).chmod(0o755)
    (folder / "script").write_text(render.script(plan, case.options, place))
    slurm.run("sbatch", str(folder / "script"))
    wait_until((folder / "run" / "ended").exists, DEADLINE)
    return folder / "run" / "cluster"


def _line(argv: tuple[str, ...]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv)


# Stands in for Apptainer, which Debian does not have: shows what it is given, and runs the program on the node.
_APPTAINER = """\
shift
while [ "${1#docker://}" = "$1" ]; do
    case $1 in --bind) echo "bind $2" ;; esac
    case $1 in --bind | --pwd) shift ;; esac
    shift
done
echo "image $1"
shift
exec "$@"
"""


def test_a_container_gets_the_orders_and_the_variables_of_its_task(slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apptainer").write_text(f"#!/bin/sh\n{_APPTAINER}")
    (tmp_path / "bin" / "apptainer").chmod(0o755)
    options = Options(container="apptainer", prologue=[f"PATH={tmp_path}/bin:$PATH"])
    logs = run(slurm, tmp_path, Case({"w": role(2, 1, 100)}, options), _TOGETHER.replace("TASKS", "2"))
    found = sorted((logs / "step-0-w.log").read_text().splitlines())
    assert [line.split()[:3] for line in found[:2]] == [["0", "orders", "of"], ["1", "orders", "of"]]
    place = f"{tmp_path}/bundle:{tmp_path}/bundle:rw"
    assert found[2:] == sorted(
        [
            f"bind {place}",
            f"bind {place.replace('bundle', 'run')}",
            "image docker://registry.example.org/vision/torch:2.3",
        ]
        * 2
    )


# Every task waits for all others, as a job's tasks do.
_TOGETHER = """\
read -r orders
echo "$SLURM_PROCID $orders $CUDA_VISIBLE_DEVICES"
touch "$(dirname "$0")/here-$SLURM_JOB_ID-$SLURM_STEP_ID-$SLURM_PROCID"
while [ $(ls "$(dirname "$0")" | grep -c ^here-) -lt TASKS ]; do sleep 0.1; done
"""


def test_paths_with_any_characters(slurm: SlurmCluster, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s 100% "own" #1 $HOME é'
    folder.mkdir()
    case = Case({"w": role(2, 1, 100)})
    logs = run(slurm, folder, case, _TOGETHER.replace("TASKS", "2"))
    found = sorted(line.split()[0] for line in (logs / "step-0-w.log").read_text().splitlines())
    assert found == ["0", "1"]
    assert (logs / "batch.log").read_text() == ""


ROLES = {
    # Three of these tasks fit on a node: one step must not wait for a node that another one has filled.
    "packed": {"a": role(2, 20, 100), "b": role(2, 20, 100)},
    "exclusive": {"a": role(2, 20, 50000), "b": role(2, 20, 50000)},
    "heterogeneous": {"ps": role(1, 1, 100), "worker": role(3, 2, 200)},
    "gpus": {"ps": role(1, 1, 100), "worker": role(2, 2, 200, 2)},
}


@pytest.mark.parametrize("kind", ROLES)
def test_all_tasks_of_all_roles_run_at_once(slurm: SlurmCluster, tmp_path: Path, kind: str) -> None:
    case = Case(ROLES[kind], Options(exclusive=kind == "exclusive"))
    tasks = case.plan.task_count
    logs = run(slurm, tmp_path, case, _TOGETHER.replace("TASKS", str(tasks)))
    found = [line.split() for path in sorted(logs.glob("step-*")) for line in path.read_text().splitlines()]
    assert sum(words[1:3] == ["orders", "of"] for words in found) == tasks, "stdin of srun reaches every task"
    if kind == "gpus":
        assert sorted(len(words[4].split(",")) for words in found if len(words) > 4) == [2, 2]


def test_the_watch_of_a_job_on_several_nodes_takes_no_gpu(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Older versions of Slurm would then have too few of them for the step of the role."""
    case = Case({"w": role(8, 1, 100, 1)})
    show = "scontrol --oneliner show step $SLURM_JOB_ID"
    until = f"until {show} >'{tmp_path}/given'; grep -q Name=watch '{tmp_path}/given'; do sleep 0.1; done"
    run(slurm, tmp_path, case, f"[ $SLURM_PROCID != 0 ] || {until}")
    (watch,) = (line for line in (tmp_path / "given").read_text().splitlines() if "Name=watch" in line)
    assert "gres" not in watch.partition("TresBind")[0] + watch.partition("TresPerStep")[2]


# Tasks of two roles fit on one core there, which Slurm gives to one step only.
THREADED = {
    "packed": ({"a": role(1, 1, 100), "b": role(1, 1, 100)}, "gpu", []),
    # Slurm 22.05 spreads the three over both nodes, and would offer the threads that they leave to the two.
    "packed, with an odd number": ({"a": role(2, 1, 100), "b": role(3, 1, 100)}, "gpu", []),
    "packed, with three cores": ({"a": role(1, 3, 100), "b": role(1, 3, 100)}, "gpu", []),
    "three packed roles": ({"a": role(2, 1, 100), "b": role(3, 1, 100), "c": role(3, 1, 100)}, "gpu", []),
    "GPUs of any type": ({"a": role(2, 1, 100, 1), "b": role(2, 1, 100, 1)}, "gpu", [1, 1, 1, 1]),
    "two tasks a node": ({"a": role(4, 1, 100, 1)}, "gpu:v100", [1, 1, 1, 1]),
    "two roles a node": ({"a": role(2, 1, 100, 1), "b": role(2, 1, 100, 1)}, "gpu:a100", [1, 1, 1, 1]),
    "two GPUs a task": ({"ps": role(1, 2, 100), "w": role(1, 1, 100, 2)}, "gpu:v100", [2]),
}


@pytest.mark.parametrize("kind", THREADED)
def test_whole_cores_and_types_of_gpus(with_threads: SlurmCluster, tmp_path: Path, kind: str) -> None:
    """All tasks run at once, and each has GPUs of its own, of the type that was asked for."""
    roles, gres, gpus = THREADED[kind]
    case = Case(roles, Options(gres=gres))
    agent = _TOGETHER.replace("TASKS", str(case.plan.task_count))
    logs = run(with_threads, tmp_path, case, f'echo "gpu $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"\n{agent}')
    found = [line.split() for path in sorted(logs.glob("step-*")) for line in path.read_text().splitlines()]
    assert sum(words[1:3] == ["orders", "of"] for words in found) == case.plan.task_count
    given = [(words[1], words[2].split(",")) for words in found if words[0] == "gpu" and len(words) > 2]
    assert sorted(len(numbers) for _, numbers in given) == gpus
    each = [(node, number) for node, numbers in given for number in numbers]
    assert len({*each}) == len(each), "no two tasks have the same"
    if gres != "gpu":
        assert {number for _, number in each} <= {"gpu:a100": {"0", "1"}, "gpu:v100": {"2", "3"}}[gres]
