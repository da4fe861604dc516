"""What a diagnosis loads: it runs beside every task that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import re2

import kedge

PROGRAM = """
import sys; sys.path[:0] = {path!r}
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.model import Evidence
log = b"epoch 1 loss 0.5\\nModuleNotFoundError: No module named 'apex'\\n"
assert classify(Evidence((("log", log),), 1)).cause == "missing_module"
assert exitspec.stock().match(1, log, b"").code == 232
print(*sys.modules)
"""
NOT_NEEDED = {
    "collections", "contextlib", "enum", "functools", "hashlib", "importlib", "json", "pathlib", "re", "re2", "signal",
    "tempfile", "typing",
}  # fmt: skip


def test_a_diagnosis_loads_only_what_it_needs():
    path = [str(Path(kedge.__file__).parents[1]), str(Path(re2.__file__).parents[1])]
    command = [sys.executable, "-I", "-S", "-c", PROGRAM.format(path=path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "re2._re2" in loaded
    assert not loaded & NOT_NEEDED
