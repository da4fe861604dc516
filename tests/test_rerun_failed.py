"""A test that fails runs once more, alone; what passes then is listed as FLAKY."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
pytest_plugins = ["rerun_failed"]
"""
# `once` fails where its file is missing, and makes it.
TESTS = """
import os, pytest

def once(name):
    there = os.path.exists(name)
    open(name, "w").close()
    assert there, "by chance"

@pytest.fixture
def cleaned():
    yield
    once("cleaned")

def test_clean_up(cleaned): pass

@pytest.mark.parametrize("text", ["a b::c[0] é"])
def test_parameter(text): once("parameter")

def test_worker(): assert "PYTEST_XDIST_WORKER" not in os.environ

def test_crash():
    if not os.path.exists("crash"):
        open("crash", "w").close()
        os._exit(3)

def test_wrong(): assert 0

def test_skipped_later():
    if os.path.exists("skipped"):
        pytest.skip("not again")
    once("skipped")
"""
FLAKY = [f"test_it.py::test_{name}" for name in ("clean_up", "crash", "parameter[a b::c[0] \\xe9]", "worker")]
MANY = """
import pytest
@pytest.mark.parametrize("number", range(21))
def test_many(number): assert 0
"""
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs pytest with the plugin, checks its exit code and returns its output."""
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment = {**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}

    def run(tests: str, code: int, *options: str) -> str:
        (tmp_path / "test_it.py").write_text(tests)
        argv = [sys.executable, "-m", "pytest", "-ra", *options]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def flaky(folder: Path) -> list[str]:
    return sorted((folder / "flaky.txt").read_text().splitlines())


def test_what_passes_alone_is_flaky_and_the_rest_fails(run: Run, tmp_path: Path) -> None:
    output = run(TESTS, 1, "--rerun-failed", "-n", "2")
    assert flaky(tmp_path) == FLAKY
    end = output[output.index("= FLAKY: ") :]
    assert "by chance" in end  # the first failure can be read
    assert sorted(line.removeprefix("FLAKY ") for line in end.splitlines() if line.startswith("FLAKY ")) == FLAKY
    failed = [line.split()[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    assert sorted(failed) == ["test_it.py::test_skipped_later", "test_it.py::test_wrong"]
    assert "2 failed" in output.splitlines()[-1]
    assert "4 flaky" in output.splitlines()[-1]


def test_flaky_tests_alone_do_not_fail_a_run(run: Run, tmp_path: Path) -> None:
    output = run(TESTS[: TESTS.index("@pytest.mark")], 0, "--rerun-failed")
    assert flaky(tmp_path) == FLAKY[:1]
    assert "1 flaky" in output.splitlines()[-1]


@pytest.mark.parametrize(("tests", "code"), [("import nothing", 2), (MANY, 1)], ids=["not loaded", "too many"])
def test_what_is_no_chance_is_not_run_again(run: Run, tmp_path: Path, tests: str, code: int) -> None:
    (tmp_path / "flaky.txt").write_text("test_it.py::test_of_yesterday\n")
    assert "once more" not in run(tests, code, "--rerun-failed")
    assert flaky(tmp_path) == []


def test_nothing_runs_again_unless_asked(run: Run, tmp_path: Path) -> None:
    assert "once more" not in run("def test_wrong(): assert 0", 1)
    assert not (tmp_path / "flaky.txt").exists()


def test_a_run_that_failed_although_no_test_did_stays_failed(run: Run) -> None:
    """As with too little coverage."""
    run("def test_fine(request): request.session.testsfailed += 1", 1, "--rerun-failed")
