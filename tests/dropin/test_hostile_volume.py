"""The init phase in volumes where containers of tasks have left links and pipes, and what its log must not show."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.dropin.cluster import access

from .phases import START, environment, make_work, run_phase


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return make_work(tmp_path / "work")


def test_a_link_in_place_of_the_logs_leads_nowhere(work: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    (elsewhere / "file").touch()
    (work / "logs").mkdir()
    (work / "logs" / "pod-1").symlink_to(elsewhere)
    assert run_phase(work).code == 0
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
    assert [path.name for path in elsewhere.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_stands_in_place_of_a_log_is_replaced(kind: str, work: Path, tmp_path: Path) -> None:
    log, elsewhere = work / "logs" / "pod-1" / "init.log", tmp_path / "elsewhere"
    log.parent.mkdir(parents=True)
    elsewhere.write_text("")
    {"link": lambda: log.symlink_to(elsewhere), "pipe": lambda: os.mkfifo(log), "folder": log.mkdir}[kind]()
    assert run_phase(work).code == 0
    assert elsewhere.read_text() == ""
    assert log.is_file()
    assert not log.is_symlink()


def test_each_line_is_in_the_log_once_where_the_pod_redirects_the_output(work: Path) -> None:
    """As OpenPAI's pods do."""
    log = work / "logs" / "pod-1" / "init.log"
    log.parent.mkdir(parents=True)
    with log.open("ab") as output:
        command = [sys.executable, "-c", START]
        subprocess.run(command, env=environment(work), stdout=output, stderr=output, cwd="/", check=True)
    lines = log.read_text().splitlines()
    assert len(lines) == len(set(lines))
    assert lines


@pytest.mark.parametrize("value", ['"s3cr3t', "s3cr3t: x", "{a: s3cr3t", "s3cr3t\n   - x"])
def test_errors_in_a_kubeconfig_do_not_show_its_lines(value: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(f"users:\n- user:\n    token: {value}\n")
    with pytest.raises(access.CannotReachCluster, match="is not a valid kubeconfig file") as error:
        access.find({"KUBECONFIG": str(file)})
    assert f"{file}:" in str(error.value)
    assert "s3cr3t" not in str(error.value)
