"""What tests of several parts need."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kedge.testing.command import without_settings

pytest_plugins = ["tests.hanging", "tests.kubernetes.sharing", "tests.rerun_failed"]

# The same examples in every run, however slow the machine is: what fails once, fails always.
settings.register_profile("kedge", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kedge")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every kedge that a test starts would compile its modules again
# With these pytest explains a failure in full: to compare two long texts line by line may take hours.
for _variable in ("CI", "BUILD_NUMBER"):
    os.environ.pop(_variable, None)
# The settings of this machine and of whoever runs the tests are not part of them.
os.environ |= without_settings()
for _variable in [name for name in os.environ if name.startswith(("KEDGE_ENGINE", "KEDGE_MARKETPLACE"))]:
    del os.environ[_variable]

# The part of the driver's interface that is used, with so many GPUs as are named in FAKE_GPUS. FAKE_NAME makes their
# names differ from those of other tests, which may run at the same time.
DRIVER = r"""
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int count(void) { const char *n = getenv("FAKE_GPUS"); return n ? atoi(n) : 0; }
int nvmlInitWithFlags(unsigned flags) {
    const char *mode = getenv("FAKE_MODE");
    if (mode && !strcmp(mode, "hang")) for (;;) pause();
    if (mode && !strcmp(mode, "crash")) abort();
    return mode ? atoi(mode) : 0;
}
int nvmlDeviceGetCount_v2(unsigned *n) { *n = count(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    const char *lost = getenv("FAKE_LOST");
    if (lost && atoi(lost) == (int)i) return 15;
    *device = (void *)(long)(i + 1);
    return 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    const char *name = getenv("FAKE_NAME");
    snprintf(uuid, size, "GPU-%s%04ld", name ? name : "", (long)device - 1);
    return 0;
}
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "some error"; }
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that have a target of make of their own."""
    for item in items:
        if item.path.parent.name == "zoo":
            item.add_marker(pytest.mark.zoo)
        elif item.path.parent == Path(__file__).parent / "slurm":
            item.add_marker(pytest.mark.slurm)
        elif item.path.parent == Path(__file__).parent / "kubernetes":
            item.add_marker(pytest.mark.kubernetes)
            # A test that disturbs the cluster waits until no other uses it.
            item.add_marker(pytest.mark.timeout(func_only=True))
        elif item.path.name == "test_benchmarks.py":
            item.add_marker(pytest.mark.benchmarks)
        elif _starts_containers(item):
            item.add_marker(pytest.mark.containers)


def _starts_containers(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    values = item.callspec.params if hasattr(item, "callspec") else {}
    on = [values[name] for name in ("on_engine", "equipped", "with_mpi") if name in values]
    return "container" in on or ("image" in item.fixturenames and "image" not in values)


@pytest.fixture(scope="session", autouse=True)
def signals_are_not_ignored() -> None:
    """What `nohup make test` and a shell's background ignore, commands of tests would ignore, too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in for the NVIDIA driver's library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("there is no C compiler to make a driver with")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "nvml.c").write_text(DRIVER)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "nvml.c"], check=True)
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 2 MiB, that can really be full."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", path], capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mount.stderr.strip()}")
    yield path
    subprocess.run(["umount", path], check=True)
