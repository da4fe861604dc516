"""kedge where the machine has too little of something: an error in words, never a traceback."""

from __future__ import annotations

import pytest

from .conftest import Kedge
from .test_streams import shell

LOG = "Traceback (most recent call last):\n  File 'x.py', line 1, in f\nValueError: x\n"


@pytest.mark.parametrize("megabytes", range(24, 56, 8))
def test_too_little_memory_is_told_as_such(kedge: Kedge, megabytes: int) -> None:
    kedge.job("echo said")
    (kedge.folder / "log").write_text(LOG)
    for command in ("ps", "validate job.yaml", "diagnose log"):
        done = shell(kedge, f"ulimit -v {megabytes << 10}; kedge {command}")
        if done.returncode != 0:
            assert (done.returncode, "error: too little memory" in done.stderr) == (4, True), done.stderr
        assert "bug in kedge" not in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("megabytes", [40, 52, 64])
def test_a_job_with_too_little_memory_never_looks_like_a_bug(kedge: Kedge, megabytes: int) -> None:
    kedge.job("echo said")
    done = shell(kedge, f"ulimit -v {megabytes << 10}; kedge run -q job.yaml")
    assert "bug in kedge" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "lost" not in kedge("ps").stdout


def test_too_many_open_files_are_told_as_such(kedge: Kedge) -> None:
    kedge.job("true")
    done = shell(kedge, "ulimit -n 5; kedge run job.yaml")
    assert (done.returncode, "open files" in done.stderr) == (4, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["ps", "validate job.yaml", "run job.yaml", "validate no-such.yaml"])
def test_messages_that_cannot_be_said_change_nothing(kedge: Kedge, command: str) -> None:
    kedge.job("echo said")
    expected = shell(kedge, f"kedge {command}").returncode
    for where in ("2> /dev/full", "2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}"):
        assert shell(kedge, f"kedge {command} {where}").returncode == expected
    assert shell(kedge, f"kedge {command} > /dev/full 2>&1").returncode in (expected, 4)
