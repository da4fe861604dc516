"""Starting, restarting and cleaning up kedge's own Podman service."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from kedge.engines.container.api.connection import PODMAN, Connection
from kedge.errors import CannotRun


def broken(folder: Path) -> str:
    """A PATH on which podman does not work."""
    folder.mkdir()
    (folder / "podman").write_text("#!/bin/sh\necho 'podman is ill'; exit 1\n")
    (folder / "podman").chmod(0o755)
    return str(folder)


def own_service() -> int:
    """The pid of this process's service."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return next(int(pid) for pid in children if b"podman" in Path("/proc", pid, "cmdline").read_bytes())


def test_a_service_that_cannot_start_quotes_podman_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", broken(tmp_path / "bin"), prepend=":")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with pytest.raises(CannotRun, match="podman is ill"), Connection(PODMAN):
        pass
    assert not list((tmp_path / "tmp").iterdir())


def test_a_service_without_its_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotRun, match="podman cannot be started"), Connection(PODMAN):
        pass


@pytest.mark.skipif(shutil.which("podman") is None, reason="needs podman: apt-get install podman")
def test_a_failed_restart_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Connection(PODMAN) as connected:
        end(own_service())
        with monkeypatch.context() as patched:
            patched.setenv("PATH", broken(tmp_path / "bin"), prepend=":")
            for _ in range(2):
                with pytest.raises(CannotRun, match="podman is ill"):
                    connected.restore()
        connected.restore()
        assert connected.client.facts().cpus


@pytest.mark.skipif(shutil.which("podman") is None, reason="needs podman: apt-get install podman")
def test_folders_of_killed_kedges_are_removed_and_those_of_live_ones_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "kedge-podman-left"
    left.mkdir()
    with Connection(PODMAN) as connected:
        end(own_service())
        for folder in tmp_path.iterdir():
            os.utime(folder, (0, 0))
        with Connection(PODMAN):
            assert not left.exists()
        connected.restore()
        assert connected.client.facts().cpus


def end(service: int) -> None:
    """Kill the service, and wait until it has ended."""
    os.kill(service, signal.SIGKILL)
    os.waitid(os.P_PID, service, os.WEXITED | os.WNOWAIT)
