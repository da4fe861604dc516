"""The runtime in one file: it has all modules, it is made anew when one of them changes, and nobody depends on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kedge
from kedge import contract, packed_runtime
from kedge.contract import TaskSpec

PYTHON = (sys.executable, "-I", "-S")


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    made = TaskSpec(
        user="me", job="test", job_id="me~test", role="worker", task_index=0, job_attempt=0, task_attempt=0, uid="1",
        folder=str(folder), workdir=f"{folder}/work", environment={}, command=("exit 3",), steps=(), host="127.0.0.1",
        ports={}, peers_file="",
    )  # fmt: skip
    file = folder / contract.SPEC_FILE
    file.write_text(json.dumps(made.to_json()))
    return file


def test_all_modules_of_kedge_come_from_the_file(cache: dict[str, str], spec: Path) -> None:
    file = packed_runtime.start_file(cache)
    assert file.suffix == ".pyc"
    done = subprocess.run([*PYTHON, "-v", file, spec], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 255
    assert "import 'kedge.runtime.postmortem.analysis' # <__main__.PackedModules" in done.stderr
    assert f"code object from '{packed_runtime.PACKAGE}" not in done.stderr
    assert json.loads((spec.parent / contract.REPORT_FILE).read_text())["user_exit_code"] == 3


def test_a_change_of_a_module_is_seen(cache: dict[str, str], tmp_path: Path) -> None:
    """The file of before is still there, but not used any more."""
    package = tmp_path / "lib" / "kedge"
    shutil.copytree(Path(kedge.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    program = "import os; from kedge import packed_runtime; print(packed_runtime.start_file(os.environ))"
    environment = {**os.environ, **cache, "PYTHONPATH": str(package.parent)}

    def usage() -> tuple[str, str]:
        found = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, check=True)
        file = found.stdout.decode().strip()
        return file, subprocess.run([*PYTHON, file], stderr=subprocess.PIPE, text=True).stderr

    before, text = usage()
    assert usage() == (before, text)
    assert "usage: python" in text
    main = package / "runtime" / "main.py"
    main.write_text(main.read_text().replace("usage: python", "changed: python"))
    after, text = usage()
    assert after != before
    assert "changed: python" in text


@pytest.mark.parametrize("shared", ["cache/kedge/runtime", "cache/kedge", "cache"])
def test_no_file_is_used_that_others_can_replace(cache: dict[str, str], tmp_path: Path, shared: str) -> None:
    """It is a program that runs as this user."""
    file = packed_runtime.start_file(cache)
    (tmp_path / shared).chmod(0o777)
    assert packed_runtime.start_file(cache) == packed_runtime.FOLDER
    (tmp_path / shared).chmod(0o755)
    assert packed_runtime.start_file(cache) == file
    file.chmod(0o620)
    assert packed_runtime.start_file(cache) == packed_runtime.FOLDER


def test_a_folder_for_all_may_hold_the_cache(cache: dict[str, str], tmp_path: Path) -> None:
    """One like /tmp: others cannot move what this user has there."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o1777)
    assert packed_runtime.start_file(cache).suffix == ".pyc"


def test_the_folders_of_a_user_with_an_own_group_may_hold_the_cache(cache: dict[str, str]) -> None:
    umask = os.umask(0o002)
    try:
        assert packed_runtime.start_file(cache).suffix == ".pyc"
    finally:
        os.umask(umask)


@pytest.mark.parametrize("damage", ["a file where the cache should be", "another user's file"])
def test_the_folder_is_used_where_there_is_no_file(cache: dict[str, str], tmp_path: Path, damage: str) -> None:
    if damage == "another user's file":
        if os.geteuid():
            pytest.skip("only root may give files away")
        os.chown(packed_runtime.start_file(cache), 12345, -1)
    else:
        (tmp_path / "cache").write_text("")
    assert packed_runtime.start_file(cache) == packed_runtime.FOLDER


def test_only_some_files_are_kept(cache: dict[str, str]) -> None:
    file = packed_runtime.start_file(cache)
    for number in range(20):
        (file.parent / f"{number}.pyc").touch()
        os.utime(file.parent / f"{number}.pyc", (number, number))
    file.unlink()
    assert packed_runtime.start_file(cache) == file
    assert len(list(file.parent.iterdir())) < 10
    assert file.exists()


def test_it_starts_without_standard_descriptors(cache: dict[str, str], spec: Path) -> None:
    """The file that is open for more modules does not take their numbers."""
    file = packed_runtime.start_file(cache)
    done = subprocess.run(["bash", "-c", f"exec {' '.join(PYTHON)} {file} {spec} <&- >&- 2>&-"])
    assert done.returncode == 255
    assert json.loads((spec.parent / contract.REPORT_FILE).read_text())["reason"] == contract.COMMAND_FAILED


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        packed_runtime._write(tmp_path / "taken", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
