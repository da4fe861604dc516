"""The batch script and the srun lines of a job."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from kedge.engines.base import Task
from kedge.engines.slurm.engine import SlurmEngine
from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import render
from kedge.errors import CannotRun

from .jobs import CASES, GOLDEN, PLACE, Case, planned, role, text


@pytest.mark.parametrize("name", CASES)
def test_what_is_rendered_is_the_golden_file(name: str) -> None:
    assert text(CASES[name]) == (GOLDEN / f"{name}.sh").read_text()


def test_there_is_a_case_for_every_golden_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "shellcheck"])
def test_shells_can_read_it(name: str, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    check = ["--severity=warning"] if shell == "shellcheck" else ["-n"]
    subprocess.run([shell, *check, GOLDEN / f"{name}.sh"], check=True)


def test_what_is_submitted_differs_only_in_the_run_and_its_paths() -> None:
    case = CASES["ps-worker-gpus"]
    other = case._replace(place=PLACE._replace(run="RUN", folder="/FOLDER", bundle="/BUNDLE"))
    same = text(case)
    for mine, theirs in zip(PLACE[:3], other.place[:3], strict=True):
        if mine != PLACE.run:
            same = same.replace(mine, theirs)
    assert same.replace(PLACE.run, "RUN") == text(other)


def directives(case: Case) -> list[str]:
    lines = render.script(case.plan, case.options, case.place).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


def test_a_newline_in_a_path_cannot_add_a_directive() -> None:
    for place in (PLACE._replace(folder="/a\n#SBATCH --uid=0"), PLACE._replace(bundle="/a\\nb")):
        with pytest.raises(CannotRun, match="Slurm cannot use the path"):
            render.script(CASES["one-role"].plan, SlurmOptions(), place)


def test_a_newline_in_the_name_of_the_user_cannot_either() -> None:
    plan = replace(CASES["one-role"].plan, user="ada\n#SBATCH --uid=0")
    assert "\n#SBATCH --uid=0" not in render.script(plan, SlurmOptions(), PLACE)


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--comment=plain-text_1.0", "--comment=plain-text_1.0"),
        ("--comment=two words", '--comment="two words"'),
        ("--comment=a#b", '--comment="a#b"'),
        ('--comment="', '--comment="\\""'),
        ("--comment=\\", '--comment="\\\\"'),
        ("--comment='$x'", "--comment=\"'$x'\""),
        ("-p main", "-p main"),
    ],
)
def test_values_have_quotes_where_sbatch_needs_them(option: str, line: str) -> None:
    assert render.quoted(option) == line


def test_kedges_own_time_limit_comes_before_that_of_the_allocation() -> None:
    """An hour, 30 s of grace, 10 min of warning, and 3 min around them: 73.5 minutes."""
    extras = {"kedge": {"timeLimit": "1h", "warnBefore": "10m"}}
    found = directives(Case({"worker": role(1, 1, 100)}, extras=extras))
    assert "--time=01:14:00" in found
    assert f"--signal=B:USR2@{10 * 60 + 30 + 60}" in found


def test_without_any_limit_the_partition_decides() -> None:
    found = directives(CASES["one-role"])
    assert not [line for line in found if line.startswith("--time")]


def test_no_more_time_is_asked_for_than_the_job_may_take() -> None:
    extras = {"kedge": {"timeLimit": "1h"}}
    for wish, expected in (("2d", "01:04:00"), ("30m", "00:30:00")):
        case = Case({"worker": role(1, 1, 100)}, SlurmOptions(time=wish), extras)
        assert f"--time={expected}" in directives(case)


def test_a_short_allocation_is_warned_of_in_its_second_half() -> None:
    extras = {"kedge": {"warnBefore": "1h"}}
    assert "--signal=B:USR2@600" in directives(Case({"w": role(1, 1, 100)}, SlurmOptions(time="20m"), extras))


@pytest.mark.parametrize(
    ("gres", "of_job", "of_step"),
    [
        ("gpu", ["--gpus-per-task=2"], ["--gpus-per-task=2"]),
        # The allocation has only GPUs of that type, and Slurm 22.05 hides them from a step that names it again.
        ("gpu:h100", ["--gpus-per-task=h100:2"], ["--gpus-per-task=2"]),
        ("npu", ["--ntasks-per-node=1", "--gres=npu:2"], ["--ntasks-per-node=1", "--gres=npu:2"]),
        ("npu:910b", ["--ntasks-per-node=1", "--gres=npu:910b:2"], ["--ntasks-per-node=1", "--gres=npu:910b:2"]),
    ],
)
def test_gpus_by_the_name_that_the_cluster_uses(gres: str, of_job: list[str], of_step: list[str]) -> None:
    case = Case({"worker": role(3, 1, 100, 2)}, SlurmOptions(gres=gres))
    step = render.step(case.plan, "worker", case.options, PLACE)
    for argv, expected in ((directives(case), of_job), (list(step), of_step)):
        at = argv.index(expected[0])
        assert argv[at : at + len(expected)] == expected


def test_roles_that_share_an_allocation_share_no_core() -> None:
    """Where Slurm gives whole cores, the step of the second role would wait for the end of the first one."""
    alone, together = {"a": role(1, 2, 100)}, {name: role(1, 2, 100) for name in "ab"}
    different = {"a": role(1, 1, 100), "b": role(1, 2, 100)}
    found = ["--ntasks-per-core=1" in directives(Case(roles)) for roles in (alone, together, different)]
    assert found == [False, True, False]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ({"a": role(2, 1, 100), "b": role(3, 1, 100)}, True),
        ({"a": role(2, 2, 100), "b": role(3, 2, 100)}, False),
        ({"a": role(2, 1, 100)}, False),
        ({"a": role(2, 1, 100), "b": role(3, 3, 100)}, False),
    ],
)
def test_odd_numbers_of_threads_of_several_roles_are_cores(roles: dict[str, Any], expected: bool) -> None:
    """In the allocation and in its steps: Slurm would choose a node on which no core is left, but single threads."""
    case = Case(roles)
    steps = [render.step(case.plan, name, case.options, PLACE) for name in roles]
    assert ["--threads-per-core=1" in argv for argv in (directives(case), *steps)] == [expected] * (len(roles) + 1)


def test_memory_is_never_less_than_the_role_asks_for() -> None:
    """1000 MiB for 3 cores: 334 for each."""
    assert "--mem-per-cpu=334M" in directives(Case({"worker": role(1, 2.5, 1000)}))


def test_a_pinned_image_is_named_by_its_digest() -> None:
    plan = CASES["one-role"].plan
    digest = f"sha256:{'0' * 64}"
    pinned = replace(plan, roles=(replace(plan.roles[0], pin=digest),))
    step = render.step(pinned, "worker", SlurmOptions(container="pyxis"), PLACE)
    assert f"--container-image=registry.example.org#vision/torch@{digest}" in step
    step = render.step(pinned, "worker", SlurmOptions(container="apptainer"), PLACE)
    assert f"docker://registry.example.org/vision/torch@{digest}" in step


def test_the_log_of_a_step_is_that_of_its_attempt() -> None:
    step = render.step(planned({"w": role(1, 1, 100)}), "w", SlurmOptions(), PLACE._replace(attempt=3))
    assert f"--output={PLACE.folder}/cluster/step-3-w.log" in step


def test_the_plan_shows_the_script_and_a_line_for_each_role() -> None:
    """What is shown is what is rendered, with placeholders for the run and its paths."""
    case = CASES["ps-worker-gpus"]
    batch, *steps = SlurmEngine(gres="gpu:a100").requests(case.plan)
    shown = "".join((batch.command, *(f"\n# {step.command}\n" for step in steps)))
    place = PLACE._replace(run="RUN", folder="/RUN-FOLDER", bundle="/BUNDLE")
    assert shown == text(case._replace(place=place))
    assert [batch.title, *(step.title for step in steps)] == ["sbatch script", "step of ps", "step of worker"]


def test_the_plan_of_one_task_shows_the_line_of_its_role() -> None:
    (one,) = SlurmEngine().requests(CASES["ps-worker-gpus"].plan, Task("worker", 3))
    assert one.command.startswith("srun --het-group=1 --job-name=worker ")
