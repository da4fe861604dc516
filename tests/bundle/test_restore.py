"""Restoring the environment that the runtime was started with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kedge
from kedge.contract import SHELVED
from kedge.runtime.hooks import report_environment
from kedge.runtime.setup import environment

_PROGRAM = """
import os, sys, json
sys.path.append(sys.argv[1])
from kedge.runtime.setup import environment
environment.restore(os.environ)
print(json.dumps(dict(os.environ)))
"""


def restored(given: dict[str, str]) -> dict[str, str]:
    """The environment of a process that was started with these variables, after it is restored."""
    argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(kedge.__file__).parents[1])]
    found: dict[str, str] = json.loads(subprocess.run(argv, env=given, capture_output=True, check=True).stdout)
    return found


@pytest.mark.parametrize(
    "given",
    [{}, {"LANG": "C"}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": ""}, {"LC_CTYPE": "C"}, {"LD_PRELOAD": ""}],
    ids=str,
)
def test_changes_by_python_are_undone(given: dict[str, str]) -> None:
    """In the C locale Python sets LC_CTYPE; an original value is kept."""
    assert restored(given) == given


def test_hidden_variables_are_restored() -> None:
    variables = {"LD_PRELOAD": "", f"{SHELVED}LD_PRELOAD": "lib.so", f"{SHELVED}LD_AUDIT": "", "A": "b"}
    environment.restore(variables)
    assert variables == {"LD_PRELOAD": "lib.so", "LD_AUDIT": "", "A": "b"}


def test_a_hooks_environment_is_reported_with_the_original_names() -> None:
    given = {f"{SHELVED}LD_PRELOAD": "lib.so", "A": "b"}
    argv = [sys.executable, "-I", "-S", report_environment.__file__, "1", SHELVED]
    told = subprocess.run(argv, env=given, capture_output=True, check=True).stdout
    assert sorted(told.removeprefix(b"E").split(b"\0")) == [b"", b"", b"A=b", b"LD_PRELOAD=lib.so"]
