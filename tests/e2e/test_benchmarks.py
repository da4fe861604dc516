"""Every benchmark runs, at its smallest size: a number that nobody can measure again is worth nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from kedge.testing.command import TIMEOUT

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALLEST = {
    "agent": ["1"],
    "barrier": ["2", "0"],
    "bundle": ["1"],
    "cli_startup": ["1"],
    "code_copies": ["--sizes", "1", "--rounds", "1"],
    "containers": ["--tasks", "1", "--rounds", "1"],
    "diagnosis_accuracy": ["."],
    "diagnosis_speed": ["--repeat", "1", "--sizes", "0.1"],
    "failure_overhead": ["1"],
    "floors": ["--short"],
    "init_phase": ["1"],
    "kubernetes_driver": ["2"],
    "kubernetes_start": ["localhost/kedge/busybox:1", "--rounds", "1"],
    "link": ["2", "1"],
    "log_throughput": ["1", ".", "3"],
    "merged_logs": ["2", "1"],
    "mirror": ["8", "1"],
    "planning": ["10"],
    "resolution": ["1"],
    "run_copies": ["2"],
    "runtime_overhead": ["1"],
    "shared_folder": [],
    "slurm_client": ["1"],
    "slurm_start": ["1", "--rounds", "1"],
    "ssh_sessions": ["1"],
    "start_tasks": ["1"],
}
HELPERS = {"attempts", "rounds", "simulated_pods", "turns"}  # used by other benchmarks


def test_every_benchmark_is_run() -> None:
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == SMALLEST.keys() | HELPERS


@pytest.mark.parametrize("name", SMALLEST)
def test_benchmark(name: str, tmp_path: Path, shared: Path, request: pytest.FixtureRequest) -> None:
    if name in ("slurm_client", "slurm_start") and "SLURM_CONF" not in os.environ:
        pytest.skip("no SLURM_CONF names a cluster; tests/slurm runs it on one of its own")
    if name == "kubernetes_start":
        pytest.skip("it needs a cluster; tests/kubernetes runs it on one of its own")
    if name == "shared_folder" and not shutil.which("strace"):
        pytest.skip("there is no strace")
    if name == "containers":
        request.getfixturevalue("image")("busybox")
    (tmp_path / "job.log").write_text("MemoryError\n")
    (tmp_path / "labels.tsv").write_text(
        "file\texit_code\troot_cause_class\troot_cause_line\tconfidence\njob.log\t1\thost_oom_alloc\tMemoryError\thigh\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared / "cache"), "XDG_STATE_HOME": str(tmp_path)}
    argv = [sys.executable, BENCHMARKS / f"{name}.py", *SMALLEST[name]]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert any(character.isdigit() for character in done.stdout)


def python(program: str) -> str:
    """What a program that imports from benchmarks/ prints."""
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    return subprocess.run([sys.executable, "-c", program], env=environment, stdout=PIPE, text=True, check=True).stdout


def test_the_history_has_a_row_for_every_floor_and_takes_another_column() -> None:
    page = python(
        "import floors; found = {name: 1 + n for n, name in enumerate(floors.FLOORS)}\n"
        "print(floors.recorded(floors.HISTORY.read_text(), 'LABEL', found))"
    )
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ")]
    (first,) = (n for n, row in enumerate(rows) if row[0].strip() == "ratio")
    names = python("import floors; print(*floors.FLOORS, sep='\\n')").splitlines()
    assert rows[first][-1] == " LABEL "
    assert [row[0].strip() for row in rows[first + 1 :][: len(names)]] == names
    assert [row[-1] for row in rows[first + 1 :][: len(names)]] == [f" {1 + n:.2f} " for n in range(len(names))]


def test_a_floor_allows_noise_and_no_more() -> None:
    assert (
        python(
            "from floors import Floor\n"
            "print(*[Floor(10).allows(x) for x in (1, 12.9, 13.1)], *[Floor(1, True).allows(x) for x in (2, 0.8, 0.7)])"
        ).split()
        == ["True", "True", "False"] * 2
    )


def test_a_benchmark_of_containers_says_why_it_failed(tmp_path: Path, shared: Path, image: object) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared / "cache"), "XDG_STATE_HOME": str(tmp_path)}
    argv = [sys.executable, BENCHMARKS / "containers.py", "--tasks", "1", "--image", "localhost/kedge/none-such:1"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode != 0
    assert "localhost/kedge/none-such:1" in done.stderr
    assert "Traceback" not in done.stderr
