"""What the supervisor loads around a command that succeeds. It runs beside every task, so what it loads is paid for
every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kedge import contract, packed_runtime

# What `kedge.light` stands in for, what those load, and what only some tasks need.
NOT_NEEDED = {
    "ctypes", "dataclasses", "enum", "inspect", "json", "math", "re", "selectors", "shutil", "signal", "socket",
    "struct", "subprocess", "tempfile", "threading", "traceback", "typing", "kedge.diagnose", "kedge.lazy_modules",
    "kedge.runtime.logs.secret_forms", "kedge.runtime.setup.code_copy", "kedge.untrusted_values",
}  # fmt: skip


# What starting a folder loads.
ONLY_FROM_A_FOLDER = {"bisect", "collections", "contextlib", "functools", "importlib", "operator", "runpy", "types"}


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "folder"])
def test_a_start_around_true_loads_only_what_it_needs(attempt, tmp_path, packed):
    attempt.folder.mkdir(exist_ok=True)
    peers = tmp_path / "peers.json"
    peers.write_text(json.dumps({"roles": {"worker": [{"host": "127.0.0.1", "ports": {"ssh": [22022]}}]}}))
    file = attempt.folder / contract.SPEC_FILE
    file.write_text(json.dumps(attempt.spec._replace(peers_file=str(peers)).to_json()))
    start = packed_runtime.start_file(os.environ) if packed else attempt.launcher
    launcher = [sys.executable, "-I", "-S", "-X", "importtime", str(start)]
    done = subprocess.run([*launcher, str(file), "--open-files", "512"], stderr=subprocess.PIPE, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "kedge.runtime.attempt" in loaded
    assert not loaded & (NOT_NEEDED | ONLY_FROM_A_FOLDER if packed else NOT_NEEDED)
