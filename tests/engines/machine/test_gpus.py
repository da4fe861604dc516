from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.engines.machine.gpus import Device, Gpu, MachineGpus, environment, probe, take, visible
from kedge.errors import CannotRun

GPUS = [Device(0, "GPU-aa11"), Device(1, "GPU-aa22"), Device(2, "GPU-bb33")]

ASK = (
    "import json; from kedge.engines.machine import gpus\n"
    "def said(ask):\n"
    "    try: return ask()\n"
    "    except Exception as error: return f'{type(error).__name__}: {error}'\n"
    "print(json.dumps([gpus.probe(%s), said(gpus.count)]))\n"
)


def ask(driver: Path | None, deadline: str = "", **variables: str) -> list[object]:
    """The results of probe and count in a process that finds this driver."""
    without = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    paths = {"LD_LIBRARY_PATH": str(driver)} if driver else {}
    command = [sys.executable, "-W", "error", "-c", ASK % deadline]
    done = subprocess.run(command, env=without | paths | variables, capture_output=True, text=True, check=True)
    answer: list[object] = json.loads(done.stdout)
    assert done.stderr == ""
    return answer


def test_the_gpus_are_those_of_the_driver(driver: Path) -> None:
    found = [[[0, "GPU-0000"], [1, "GPU-0001"]], None]
    assert ask(driver, FAKE_GPUS="2") == [found, 2]


def test_only_visible_gpus_are_acquired(driver: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from kedge.engines.machine.gpus import acquire, acquired\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(2):\n"
        "    with acquired(2, folder) as gpus: print([gpu.device.uuid for gpu in gpus])\n"
        "print(acquire(0, folder))\n"
    )
    variables = {"LD_LIBRARY_PATH": str(driver), "FAKE_GPUS": "4", "CUDA_VISIBLE_DEVICES": "3,1,0"}
    command = [sys.executable, "-W", "error", "-c", script, tmp_path]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    assert done.stdout == "['GPU-0003', 'GPU-0001']\n" * 2 + "[]\n"


def test_a_busy_gpu_is_not_acquired_even_without_a_claim(tmp_path: Path) -> None:
    busy = {GPUS[0].uuid}
    taken = take(2, GPUS, tmp_path, busy)
    for gpu in taken:
        os.close(gpu.claim_fd)
    assert [gpu.device for gpu in taken] == GPUS[1:]
    with pytest.raises(CannotRun, match="there are 3 and 1 of them are taken"):
        take(3, GPUS, tmp_path, busy)


def test_a_driver_without_gpus(driver: Path) -> None:
    assert ask(driver) == [[[], None], 0]


def test_a_lost_gpu_is_skipped(driver: Path) -> None:
    found = [[[0, "GPU-0000"], [2, "GPU-0002"]], None]
    assert ask(driver, FAKE_GPUS="3", FAKE_LOST="1") == [found, 2]


def test_only_visible_gpus_count(driver: Path) -> None:
    assert ask(driver, FAKE_GPUS="4", CUDA_VISIBLE_DEVICES="3,GPU-0001")[1:] == [2]
    assert ask(driver, FAKE_GPUS="4", CUDA_VISIBLE_DEVICES="")[1:] == [0]


def test_a_driver_that_is_not_loaded_is_not_a_problem(driver: Path) -> None:
    assert ask(driver, FAKE_MODE="9") == [[[], None], 0]


def test_a_problem_of_the_driver_is_reported(driver: Path) -> None:
    problem = "RM has detected an NVML/RM version mismatch"
    refused = f"CannotRun: the GPUs of this machine cannot be used: {problem}; nvidia-smi may show more"
    assert ask(driver, FAKE_GPUS="1", FAKE_MODE="18") == [[[], problem], refused]


def test_a_crash_of_the_driver_does_not_crash_kedge(driver: Path) -> None:
    (_, problem), count = ask(driver, FAKE_MODE="crash")  # type: ignore[misc]
    assert problem.startswith("the query of the NVIDIA driver failed with exit code -6")
    assert str(count).startswith("CannotRun: ")


def test_a_hanging_driver_has_a_deadline(driver: Path) -> None:
    script = "from kedge.engines.machine import gpus; print(gpus.probe(0.5).problem)"
    environment = os.environ | {"LD_LIBRARY_PATH": str(driver), "FAKE_MODE": "hang"}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "the NVIDIA driver did not answer within 0.5 s\n"
    assert done.stderr == ""


def test_a_machine_without_a_driver() -> None:
    if (Path("/dev") / "nvidiactl").exists():
        pytest.skip("this machine has a driver")
    assert probe() == MachineGpus(())


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        (" 1 , 2", [1, 2]),
        ("0,-1,2", [0]),
        ("0,7,2", [0]),
        ("1,1", [1]),
        ("GPU-bb", [2]),
        ("GPU-aa22,0", [1, 0]),
        ("GPU-aa", []),
        ("GPU-zz,0", []),
        ("nonsense", []),
        ("NoDevFiles", []),
    ],
)
def test_visible(setting: str | None, expected: list[int]) -> None:
    assert [device.number for device in visible(GPUS, setting)] == expected


def test_a_part_of_a_gpu_is_used_by_its_uuid() -> None:
    assert visible(GPUS, "MIG-c6d4,MIG-GPU-x/1/0") == [Device(-1, "MIG-c6d4"), Device(-1, "MIG-GPU-x/1/0")]


def test_environment() -> None:
    def of(*devices: Device) -> list[str]:
        found = environment([Gpu(device, -1) for device in devices])
        assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        return [found["CUDA_VISIBLE_DEVICES"], found["NVIDIA_VISIBLE_DEVICES"]]

    assert of(GPUS[2], GPUS[0]) == ["2,0", "2,0"]
    assert of(Device(-1, "MIG-a"), Device(-1, "MIG-b")) == ["MIG-a,MIG-b"] * 2
    assert of() == ["", "none"]


def numbers(gpus: list[Gpu]) -> list[int]:
    return [gpu.device.number for gpu in gpus]


def release(gpus: list[Gpu]) -> None:
    for gpu in gpus:
        os.close(gpu.claim_fd)


def test_no_gpu_is_acquired_twice(tmp_path: Path) -> None:
    first = take(2, GPUS, tmp_path)
    assert numbers(first) == [0, 1]
    with pytest.raises(CannotRun, match="the job needs 2 GPUs; there are 3 and 2 of them are taken by other jobs"):
        take(2, GPUS, tmp_path)
    second = take(1, GPUS, tmp_path)
    assert numbers(second) == [2]
    release(first)
    third = take(2, GPUS, tmp_path)
    assert numbers(third) == [0, 1]
    release(second + third)


def test_acquiring_more_gpus_than_there_are(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="the job needs 4 GPUs; there are 3 and 0 of them are taken by other jobs"):
        take(4, GPUS, tmp_path)
    release(take(3, GPUS, tmp_path))  # the three were released


def test_acquiring_no_gpus_needs_no_claims(tmp_path: Path) -> None:
    assert take(0, [], tmp_path) == []


def test_a_task_that_outlives_its_controller_keeps_its_gpus(tmp_path: Path) -> None:
    gpus = take(3, GPUS, tmp_path)
    kept = gpus[1].claim_fd
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[kept]) as supervisor:
        release(gpus)
        others = take(2, GPUS, tmp_path)
        assert numbers(others) == [0, 2]
        supervisor.communicate()
    release(others + take(1, [GPUS[1]], tmp_path))


def test_jobs_that_start_together_get_different_gpus(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from kedge.engines.machine.gpus import Device, take\n"
        "gpus = take(2, [Device(n, f'GPU-{n}') for n in range(8)], Path(sys.argv[1]))\n"
        "print(*[gpu.device.number for gpu in gpus], flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, tmp_path]
    jobs = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    acquired = [job.stdout.readline().split() for job in jobs if job.stdout]
    for job in jobs:
        job.communicate()
    assert sorted(number for line in acquired for number in line) == [str(n) for n in range(8)]
