"""What tests of the init phase share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.bundle import build, export, layers
from kedge.bundle.build import Bundle

from .init_folders import InitFolders
from .phases import Phase, RunInit, make_work, run_phase
from .runtime_images import podman
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


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundle]:
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield build.ensure(layers.available())


@pytest.fixture(scope="session")
def runtime_image(complete: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    layout = tmp_path_factory.mktemp("image") / "layout"
    export.image(complete.path, layout, "kedge-runtime:test")
    name = f"localhost/kedge-test/runtime-{os.getpid()}:1"
    podman("tag", podman("pull", "-q", f"oci:{layout}").stdout.strip(), name)
    yield name
    podman("rmi", "-f", name)
