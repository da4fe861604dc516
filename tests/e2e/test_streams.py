"""kedge with streams that are closed, full, or not read."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from .conftest import TIMEOUT, Kedge


def shell(kedge: Kedge, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command in which `kedge` is this kedge."""
    script = f'kedge() {{ {shlex.quote(sys.executable)} -m kedge "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", script],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_job_runs_without_standard_streams(kedge: Kedge, closed: str) -> None:
    kedge.job(["echo out; echo err >&2", "ls -l /proc/self/fd | grep -c -- '->'"])
    done = shell(kedge, f"kedge run job.yaml {closed}")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert kedge("ps").stdout.split()[-6:-4] != ["lost"]
    assert sorted(kedge.said().splitlines()) == ["4", "err", "out"]


@pytest.mark.parametrize("command", ["ps", "validate job.yaml", "plan --json job.yaml", "--version", "schema"])
def test_without_stdout_nothing_is_said(kedge: Kedge, command: str) -> None:
    kedge.job("true")
    done = shell(kedge, f"kedge {command} >&-")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("command", ["ps", "validate job.yaml", "plan --json job.yaml", "--version", "run job.yaml"])
def test_a_full_disk_behind_stdout_is_an_error_and_no_bug(kedge: Kedge, command: str) -> None:
    kedge.job("echo out")
    done = shell(kedge, f"kedge {command} > /dev/full")
    assert done.returncode == 4
    assert "error: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_goes_on_when_its_lines_cannot_be_shown(kedge: Kedge) -> None:
    kedge.job("echo out")
    assert "the job goes on" in shell(kedge, "kedge run job.yaml > /dev/full").stderr
    assert kedge.said() == "out\n"
    assert " succeeded " in kedge("ps").stdout
