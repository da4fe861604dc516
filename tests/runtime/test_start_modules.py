"""What the supervisor loads around a command that succeeds. It runs beside every task, so what it loads is paid for
every time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from kedge import contract, packed_runtime
from kedge.jobs import link_keys

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


def test_an_agent_that_connects_loads_only_what_it_needs():
    """Another one runs beside every task of a cluster."""
    program = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from kedge.runtime.agent import main, run\n"
        "from kedge.runtime.agent.dial import Dial, pinned\n"
        "Dial(pinned(sys.stdin.read()), '127.0.0.1', int(sys.argv[2]), 0.0).close()\n"
        "print(*sys.modules)"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = [sys.executable, "-I", "-S", "-c", program, str(packed_runtime.PACKAGE.parent)]
        argv.append(str(server.getsockname()[1]))
        certificate = link_keys.made().certificate
        done = subprocess.run(argv, input=certificate, stdout=subprocess.PIPE, check=True, text=True)
    loaded = set(done.stdout.split())
    assert "kedge.runtime.agent.connection" in loaded
    assert not loaded & (NOT_NEEDED - {"struct"} | {"collections", "encodings.idna", "ssl"})
