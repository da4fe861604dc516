"""Whether a process has children, which saves a look at all processes of the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kedge

PROGRAM = """
import os, sys
sys.path.append(sys.argv[1])
from kedge.runtime.process import children
children.become_subreaper()
before = children.exist()
reader, writer = os.pipe()
if os.fork() == 0:  # leaves an orphan, in a session of its own, that lives until the pipe is closed
    if os.fork() == 0:
        os.setsid()
        os.close(writer)
        os.read(reader, 1)
    os._exit(0)
os.wait()
orphan = children.exist()
os.close(writer)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
zombie = children.exist()
os.wait()
print(before, orphan, zombie, children.exist())
"""


def test_orphans_and_zombies_are_children() -> None:
    source = str(Path(kedge.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", PROGRAM, source], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "False"]
