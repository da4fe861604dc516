"""GPUs of the local engine, with a stand-in for the NVIDIA driver's library."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Kedge

SHOW = "echo sees [${CUDA_VISIBLE_DEVICES-unset}]"


def roles(**gpus: int) -> dict[str, dict[str, object]]:
    """Roles of one task each with these numbers of GPUs; the job waits for all of them."""
    return {
        name: {
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": gpu},
            "completion": {"minSucceededInstances": -1},
        }
        for name, gpu in gpus.items()
    }


@pytest.fixture
def machine(kedge: Kedge, driver: Path) -> Kedge:
    """A machine with three GPUs that only this test uses; real machines share claims between all users."""
    kedge.environment |= {"LD_LIBRARY_PATH": str(driver), "FAKE_GPUS": "3", "FAKE_NAME": os.urandom(4).hex()}
    kedge.environment.pop("CUDA_VISIBLE_DEVICES", None)
    return kedge


def test_every_task_gets_its_own_gpus_and_tasks_without_gpus_see_none(machine: Kedge) -> None:
    done = machine("run", machine.job(SHOW, roles=roles(a=2, b=1, c=0)))
    seen = dict(re.findall(r"^(\w):0 \| sees \[(.*)\]$", done.stdout, re.MULTILINE))
    assert sorted(f"{seen['a']},{seen['b']}".split(",")) == ["0", "1", "2"]
    assert len(seen["a"].split(",")) == 2
    assert seen["c"] == ""


def test_two_jobs_never_have_the_same_gpu(machine: Kedge) -> None:
    machine("run", "-d", machine.job("echo ready; sleep 1000", roles=roles(worker=2)))
    machine.wait_for_output("ready")
    done = machine("run", machine.job(SHOW, name="second", roles=roles(a=1)))
    assert "sees [2]" in done.stdout
    done = machine("run", machine.job(SHOW, name="third", roles=roles(a=2)), code=4)
    assert "the job needs 2 GPUs; there are 3 and 2 of them are taken by other jobs" in done.stderr
    machine("stop", "job")
    assert "Succeeded" in machine("run", machine.job(SHOW, name="third", roles=roles(a=3))).stdout


def test_too_few_gpus_are_an_error_that_names_both_numbers(machine: Kedge) -> None:
    job = machine.job(SHOW, roles=roles(a=2, b=2))
    said = "the job requests 4 GPUs (a: 2, b: 2), and this machine has 3 GPUs"
    assert f"{said}; use --allow-fewer-gpus to start it with fewer" in machine("run", job, code=4).stderr
    assert f"the job cannot run here: {said}" in machine("plan", job).stderr
    assert not machine.runs()
    done = machine("run", "--allow-fewer-gpus", job)
    assert f"note: {said}: the last tasks get fewer" in done.stderr
    assert "a:0 | sees [0,1]" in done.stdout
    assert "b:0 | sees [2]" in done.stdout


def test_a_machine_without_gpus_is_an_error_unless_allowed(kedge: Kedge) -> None:
    job = kedge.job(SHOW, roles={"a": {"instances": 3, **roles(a=2)["a"]}})
    said = "the job requests 6 GPUs (a: 2 for each of 3 tasks), and this machine has no GPU"
    assert f"{said}; use --allow-fewer-gpus to start it without any" in kedge("run", job, code=4).stderr
    assert not kedge.runs()
    done = kedge("run", job, "--allow-fewer-gpus")
    assert f"note: {said}: tasks get none" in done.stderr
    assert "Succeeded" in done.stdout
    assert "GPU" not in kedge("run", kedge.job(SHOW)).stderr


def test_the_error_mentions_hidden_gpus(machine: Kedge) -> None:
    done = machine("run", machine.job(SHOW, roles=roles(a=2)), code=4, CUDA_VISIBLE_DEVICES="1")
    assert "(a: 2), and CUDA_VISIBLE_DEVICES=1 leaves it 1 GPU of 3;" in done.stderr


def test_too_few_gpus_are_an_error_for_containers_too(in_containers: Callable[[str], Kedge]) -> None:
    kedge = in_containers("busybox")
    job = kedge.job("echo ran", roles=roles(a=1))
    said = "the job requests 1 GPU (a: 1), and this machine has no GPU"
    assert f"{said}; use --allow-fewer-gpus" in kedge("run", job, code=4).stderr
    assert not kedge.runs()
    assert f"note: {said}: tasks get none" in kedge("run", job, "--allow-fewer-gpus").stderr
    assert kedge.task_log("a-0") == "ran\n"
