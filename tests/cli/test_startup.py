"""What commands load: nothing that is slow to load and not needed for input that is plainly right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HELLO = Path(__file__).parents[2] / "examples" / "hello.yaml"
SLOW = {  # what only wrong or rare input, containers or the network need
    "asyncio", "difflib", "docker", "hashlib", "httpx", "importlib.metadata", "jsonschema",
    "kedge.engines.controller.job", "multiprocessing", "pynvml", "requests", "rich", "ssl", "urllib.request", "urllib3",
    "zstandard",
}  # fmt: skip
PROGRAM = "import sys; from kedge.cli.main import cli; cli(standalone_mode=False); print(*sys.modules, file=sys.stderr)"


CONTROLLER = """
import sys
from kedge.engines import registry
registry.load("local").load()
import kedge.controller.main
print(*sys.modules)
"""


@pytest.fixture
def loaded(tmp_path: Path):
    """The modules that a command has loaded."""

    def run(*command: str) -> set[str]:
        environment = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command], env=environment, capture_output=True, text=True, check=True
        )
        return set(done.stderr.splitlines()[-1].split())

    return run


@pytest.mark.parametrize(
    "command", [("validate", HELLO), ("plan", HELLO), ("run", "--quiet", HELLO)], ids=lambda command: command[0]
)
def test_a_command_loads_nothing_that_it_does_not_need(loaded, command) -> None:
    """Without short options, for which click loads difflib."""
    found = loaded(*map(str, command))
    assert "kedge.spec.yaml" in found
    assert not found & SLOW


def test_settings_are_read_only_where_there_is_a_file(loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = {"tomllib", "kedge.settings.files", "kedge.jobs.site_rules"}
    assert not loaded("validate", str(HELLO)) & (readers | {"kedge.settings.variables"})
    (tmp_path / "site.toml").write_text("engine = 'local'")
    monkeypatch.setenv("KEDGE_SITE_FILE", str(tmp_path / "site.toml"))
    found = loaded("validate", str(HELLO))
    assert readers <= found
    assert not found & SLOW
    assert not loaded("ps") & {
        "kedge.jobs.site_rules",
        "kedge.jobs.engine_choice",
    }  # which engine has a cluster is read


def test_a_diagnosis_loads_nothing_of_job_files(loaded, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("CUDA out of memory\n")
    found = loaded("diagnose", str(tmp_path / "a.log"))
    assert "kedge.settings.table" in found
    assert not found & {"kedge.settings.files", "kedge.spec.model", "kedge.resolve.model", "kedge.plan.model"}


def test_listing_runs_loads_nothing_of_jobs_and_engines(loaded) -> None:
    assert "kedge.runs.status" in loaded("run", "-q", str(HELLO))
    found = loaded("ps")
    assert "kedge.runs.status" in found
    assert not found & (SLOW | {"kedge.spec.parse", "kedge.resolve.resolve", "kedge.plan.build", "yaml"})


def test_a_controller_loads_what_explains_failures_only_for_a_failure() -> None:
    done = subprocess.run([sys.executable, "-c", CONTROLLER], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert "kedge.engines.controller.job" in found
    late = {"click", "difflib", "kedge.engines.controller.failures", "re2", "subprocess", "tempfile", "uuid"}
    assert not found & (SLOW - {"kedge.engines.controller.job"} | late)
