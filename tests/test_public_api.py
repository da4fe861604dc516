"""What `import kedge` offers: lazily, typed, and documented."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kedge
from kedge import lazy_modules

ROOT = Path(__file__).parents[1]
HELLO = ROOT / "examples" / "hello.yaml"
NAMES = [name for name in kedge.__all__ if not name.startswith("__")]


def loaded_after(code: str) -> set[str]:
    """The modules of kedge that an interpreter has loaded after the code."""
    code += "; import sys; print(*(name for name in sys.modules if name.split('.')[0] == 'kedge'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(done.stdout.split())


def test_importing_kedge_loads_nothing_else() -> None:
    assert loaded_after("import kedge") == {"kedge"}
    light = {"kedge.light", "kedge.light.types"}
    assert loaded_after("import kedge; kedge.InputError") - light == {"kedge", "kedge.lazy_modules", "kedge.errors"}


@pytest.mark.parametrize("name", NAMES)
def test_each_name_can_be_loaded_and_is_documented(name: str) -> None:
    assert getattr(kedge, name).__name__ == name
    assert inspect.getdoc(getattr(kedge, name))
    assert re.search(rf"`{name}[`(]", (ROOT / "docs" / "python-api.md").read_text())


def test_type_checkers_read_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(kedge.__file__).read_text())
    found = {
        alias.name: f"{node.module}:{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kedge.")
        for alias in node.names
    }
    assert {name: place for name, place in found.items() if name in NAMES} == lazy_modules.PUBLIC
    assert sorted(lazy_modules.PUBLIC) == sorted(NAMES)


def test_functions_that_share_their_name_with_a_part_stay() -> None:
    code = (
        "import kedge; from kedge.plan.model import Plan; from kedge.runs import folder; import kedge.diagnose.model; "
        "assert callable(kedge.plan) and callable(kedge.runs) and callable(kedge.diagnose); "
        "from kedge import plan; assert callable(plan); from kedge.plan import build; build.build"
    )
    loaded_after(code)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'jobz'"):
        kedge.jobz  # noqa: B018


def test_mypy_sees_the_types(tmp_path: Path) -> None:
    returned = {
        "diagnose": "kedge.diagnose.model.Diagnosis",
        "load": "kedge.spec.model.Job",
        "plan": "kedge.plan.model.Plan",
        "run": "kedge.runs.status.JobStatus",
        "runs": "kedge.runs.folder.Run",
    }
    program = tmp_path / "program.py"
    program.write_text("import kedge\n" + "".join(f"reveal_type(kedge.{name})\n" for name in returned))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    for line, type_ in zip(done.stdout.splitlines(), returned.values(), strict=False):
        assert type_ in line.rpartition("->")[2]


def test_load_plan_run_runs_and_diagnose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "job.yaml"
    file.write_text(HELLO.read_text())
    assert kedge.load(file).name == kedge.plan(file).job
    status = kedge.run(file)
    assert status.state == "succeeded"
    ((run, info, listed),) = kedge.runs()
    assert (info.name, listed) == (kedge.load(file).name, status)
    assert run.path.is_dir()
    assert kedge.diagnose("Segmentation fault\n", exit_code=139).exit_code == 139
    file.write_text("protocolVersion: 3\n")
    with pytest.raises(kedge.InputError) as wrong:
        kedge.load(file)
    assert len(wrong.value.problems) > 1
