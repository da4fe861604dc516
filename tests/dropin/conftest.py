"""What tests of the init phase share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .init_folders import InitFolders
from .phases import Phase, RunInit, make_work, run_phase
from .tls_servers import Certificate, certificate


@pytest.fixture(scope="session")
def own_certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for 127.0.0.1 that is trusted only where it is given."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate with")
    return certificate(tmp_path_factory.mktemp("tls"), "loopback", "IP:127.0.0.1", "DNS:localhost")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return make_work(tmp_path / "pai")


@pytest.fixture
def run_init(work: Path) -> RunInit:
    """Runs the init phase with variables."""

    def run(**variables: str) -> Phase:
        return run_phase(work, **variables)

    return run


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InitFolders:
    """New folders; the work folder is the current one."""
    made = InitFolders(tmp_path / "pai")
    monkeypatch.chdir(made.work)
    return made
