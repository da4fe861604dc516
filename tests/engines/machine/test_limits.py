from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.engines.machine.limits import (
    FILES,
    PORTS,
    PROCESSES,
    Limit,
    cgroup_limits,
    check,
    machine,
    needs,
    shortages,
)
from kedge.errors import CannotRun


def test_needs_grow_with_tasks_and_ports() -> None:
    small, large = needs(1, 2), needs(1000, 3000)
    assert large[FILES] >= 4000 > small[FILES]
    assert large[PROCESSES] >= 3000 > small[PROCESSES]
    assert large[PORTS] == 3000


def test_every_limit_that_is_too_low_is_named() -> None:
    limits = [Limit(FILES, 10, "a"), Limit(PROCESSES, 1000, "b"), Limit(PROCESSES, -5, "c"), Limit(PORTS, 7, "d")]
    assert shortages({FILES: 11, PROCESSES: 8, PORTS: 7}, limits) == [
        "11 open files are needed, 10 are left (a)",
        "8 processes are needed, 0 are left (c)",
    ]


def test_this_machine_can_run_a_task() -> None:
    check(1, 2)
    assert {limit.kind for limit in machine()} == {FILES, PROCESSES, PORTS}


def test_the_error_for_a_job_that_is_too_large_has_the_numbers() -> None:
    with pytest.raises(CannotRun) as caught:
        check(10_000_000, 70_000)
    text = str(caught.value)
    assert text.startswith("this machine is too small for the job:\n  ")
    assert "70000 TCP ports are needed, " in text
    assert "30000008 processes are needed, " in text


def limited(script: str, **options: int) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout  # type: ignore[call-overload,no-any-return]


def test_raise_open_files() -> None:
    script = (
        "import resource; from kedge.open_files import raise_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))\n"
        "print(raise_limit(), raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    assert limited(script) == "100 200 (200, 200)\n"


def test_a_low_limit_of_open_files_is_detected() -> None:
    script = (
        "import resource; from kedge.engines.machine.limits import check\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        "try: check(100, 300)\n"
        "except Exception as error: print(error)\n"
    )
    assert "open files are needed, 100 are left (hard limit of RLIMIT_NOFILE, ulimit -Hn)" in limited(script)


@pytest.mark.skipif(os.getuid() == 0, reason="the superuser has no such limit")
def test_the_users_limit_of_processes_is_detected() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    script = (
        "import resource; from kedge.engines.machine.limits import check\n"
        f"resource.setrlimit(resource.RLIMIT_NPROC, (50, {hard}))\n"
        "try: check(100, 300)\n"
        "except Exception as error: print(error)\n"
    )
    assert "RLIMIT_NPROC, ulimit -u, is 50, " in limited(script)


def cgroup(folder: Path, highest: str, current: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pids.max").write_text(f"{highest}\n")
    (folder / "pids.current").write_text(f"{current}\n")


def test_cgroup_v2_with_all_levels(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    cgroup(tmp_path / "user.slice", "500", 30)
    cgroup(tmp_path / "user.slice" / "job", "max", 20)
    cgroup(tmp_path / "user.slice" / "job" / "step", "100", 10)
    cgroup(tmp_path / "other", "1", 1)
    found = list(cgroup_limits("0::/user.slice/job/step\n", tmp_path))
    assert [(limit.kind, limit.free) for limit in found] == [(PROCESSES, 90), (PROCESSES, 470)]
    assert found[0].source == f"{tmp_path}/user.slice/job/step/pids.max is 100, 10 are running"


def test_cgroup_v1(tmp_path: Path) -> None:
    cgroup(tmp_path / "pids" / "docker" / "abc", "200", 5)
    cgroup(tmp_path / "cpu" / "docker" / "abc", "1", 1)
    membership = "9:name=systemd:/x\n8:pids:/docker/abc\n1:cpu:/docker/abc\n0::/\n"
    assert [limit.free for limit in cgroup_limits(membership, tmp_path)] == [195]


def test_in_a_container_its_own_cgroup_is_the_mounted_root(tmp_path: Path) -> None:
    cgroup(tmp_path, "64", 4)
    assert [limit.free for limit in cgroup_limits("0::/kubepods/pod1/abc\n", tmp_path)] == [60]
