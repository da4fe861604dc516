"""The init phase in volumes where containers of tasks have left links and pipes, and what its log must not show."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kedge.dropin.cluster import access

from .init_folders import InitFolders, Ran
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


def specified(folders: InitFolders, program: str, *, secrets: str = "token: hunter2\n") -> Ran:
    """Run userCommandRender with a plugin whose program is given."""
    plugin = folders.work / "plugins" / "own"
    plugin.mkdir(parents=True)
    (plugin / "desc.yaml").write_text("init-script: run\n")
    (plugin / "run").write_text(f"#!/bin/sh\n{program}\n")
    (plugin / "run").chmod(0o755)
    (folders.config / "secrets.yaml").write_text(secrets)
    return folders.run("userCommandRender", RUNTIME_CONFIG="runtimePlugin: [{plugin: own}]\nimage: ubuntu\n")


def test_the_output_of_a_plugin_does_not_show_what_users_have_stored(folders: InitFolders) -> None:
    """A private key has several lines."""
    key = "-----BEGIN KEY-----\nAAAAB3NzaC1yc2EAAAADAQ\nzzzzzzzzzzzzzzzzzzzzz\n-----END KEY-----\n"
    for name, text in (
        ("user-extension-secrets/userExtensionSecrets.yaml", yaml.safe_dump({"jobSSH": {"key": key}})),
        ("token-secrets/token", "a-token-of-the-application\n"),
    ):
        (folders.work / name).parent.mkdir()
        (folders.work / name).write_text(text)
    ran = specified(folders, f"echo \"$1\"; cat '{folders.work}'/*-secrets/*; echo done", secrets=f"k: {key!r}\n")
    assert ran.code == 0, ran.log
    for line in (*key.splitlines(), "a-token-of"):
        assert line not in ran.log
    assert ran.log.rstrip().endswith("done")


def test_a_plugin_that_never_ends_its_line_does_not_fill_the_memory(folders: InitFolders) -> None:
    ran = specified(folders, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done")
    assert ran.code == 0
    (line,) = [line for line in ran.log.splitlines() if line.endswith("xxx")]
    assert 1 << 20 <= len(line) < 1 << 21
    assert ran.log.rstrip().endswith("done")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ('mkfifo "$2"', "plugin_pre0.sh cannot be used: it is a named pipe, not a regular file"),
        ('head -c 5000000 /dev/zero > "$2"', "plugin_pre0.sh cannot be used: it is larger than 4 MiB"),
    ],
)
def test_a_script_is_used_completely_or_not_at_all(program: str, reason: str, folders: InitFolders) -> None:
    ran = specified(folders, program)
    assert ran.code == 1
    assert reason in ran.log


def test_secrets_are_not_written_through_a_link(folders: InitFolders, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folders.work / "kedge-secrets").symlink_to(elsewhere)
    assert specified(folders, "true").code == 0
    assert list(elsewhere.iterdir()) == []
    assert stat.S_IMODE((folders.work / "kedge-secrets").lstat().st_mode) == 0o700
