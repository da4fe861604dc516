"""Commands that are forked from a server do not hold up the process that has started them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kedge.testing.wait import wait_until

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
from pathlib import Path
from tests.faults.forked import Forked

if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.touch()
    forked = Forked(["--help"], Path("/"), dict(os.environ), out, out)
    os.kill(forked.pid, 19)  # it never ends by itself
    print(forked.pid, flush=True)
"""


def test_a_process_that_exits_does_not_wait_for_its_commands(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path / "out")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not Path(f"/proc/{int(done.stdout)}").exists(), 120)
