"""The layer `driver`, and the agent of the layer `net`: what a cluster starts where there may be no Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kedge.bundle import build, layers, manifest
from kedge.bundle.build import Bundle
from kedge.errors import EXIT_CANNOT_RUN

MB = 1_000_000


@pytest.fixture(scope="module")
def driver() -> Bundle:
    return build.ensure(layers.choose(["driver"]))


def started(*argv: str | Path, told: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run without any environment: nothing of this machine's Python is found."""
    return subprocess.run(argv, input=told, capture_output=True, env={}, cwd="/", timeout=60, check=False)


def test_it_needs_the_layer_net() -> None:
    assert layers.choose(["driver"]) == ("core", "net", "driver")


def test_it_is_small(driver: Bundle) -> None:
    assert sum(e.size for e in manifest.entries(driver.path) if e.layer == "driver") < 11 * MB


def test_it_holds_no_other_engine_and_no_command_line(driver: Bundle) -> None:
    parts = {tuple(Path(entry.path).parts[2:]) for entry in manifest.entries(driver.path)}
    assert {part[:2] for part in parts if part[:1] == ("engines",)} >= {("engines", "slurm"), ("engines", "cluster")}
    assert not {part for part in parts if part[:1] in (("cli",), ("jobs",), ("dropin",), ("bundle",))}
    assert not {part for part in parts if part[:2] in (("engines", "container"), ("engines", "local"))}


def test_a_controller_without_a_run(driver: Bundle, tmp_path: Path) -> None:
    done = started(driver.path / "controller", tmp_path)
    assert done.returncode == EXIT_CANNOT_RUN
    assert f"{tmp_path}/cluster/orders.json cannot be read on this node".encode() in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_controller_without_arguments(driver: Bundle) -> None:
    done = started(driver.path / "controller")
    assert done.stderr == b"usage: controller RUN_FOLDER [SIGNAL...]\n"


def test_an_agent_without_orders(driver: Bundle) -> None:
    done = started(driver.path / "agent", "--index-variable", "I", "--node-variable", "N", told=b"{}\n")
    assert done.returncode == 2
    assert done.stderr == b"kedge agent: the line on stdin does not hold the orders of an agent\n"


def test_the_controller_knows_the_types_of_what_it_reads(driver: Bundle) -> None:
    """It checks reports and events against them. The supervisor does without, to start faster."""
    program = (
        "import sys; sys.path.append(sys.argv[1]); from kedge.runtime.packed_start import PackedModules\n"
        "sys.meta_path.insert(0, PackedModules(sys.argv[1] + '/kedge/controller.pyc'))\n"
        "from kedge.contract import Report; from kedge.diagnose.model import Diagnosis\n"
        "print(Report.__annotations__['exit_code'], Diagnosis.__annotations__['cause'])"
    )
    done = started(driver.path / "bin" / "python3", "-I", "-S", "-c", program, driver.path / "site")
    assert done.stdout == b"int str\n", done.stderr
