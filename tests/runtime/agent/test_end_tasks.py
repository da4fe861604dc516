"""Tasks of silent agents are ended from beside them."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

from kedge.testing.wait import wait_until

_DEADLINE = 20.0
# A keeper's child without the variables, in a session of its own.
_PROGRAM = "env -i /bin/sh -c 'setsid sleep 60 & wait' & wait"
_END = "import sys; from kedge.runtime.agent.main import main; sys.exit(main(sys.argv[1:]))"


def keeper(job: str, index: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", _PROGRAM], env={**os.environ, "TEST_JOB": job, "TEST_INDEX": str(index)})


def below(pid: int) -> list[int]:
    """The process and its descendants."""
    found = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in found.splitlines()]
    pids = [pid]
    for each in pids:
        pids += [child for child, parent in pairs if parent == each]
    return pids


def test_the_tasks_with_these_variables_end_with_what_they_have_started() -> None:
    job = secrets.token_hex(8)
    tasks = [keeper(job, index) for index in range(3)]
    try:
        wait_until(lambda: all(len(below(task.pid)) >= 3 for task in tasks), _DEADLINE)
        ended = [pid for task in tasks[:2] for pid in below(task.pid)]
        argv = [sys.executable, "-c", _END, "--end", "TEST_INDEX=0,1", "TEST_JOB"]
        done = subprocess.run(argv, env={**os.environ, "TEST_JOB": job}, timeout=60, check=False)
        assert done.returncode == 0
        assert [task.wait(_DEADLINE) for task in tasks[:2]] == [-9, -9]
        wait_until(lambda: not any(map(runs, ended)), _DEADLINE)
        assert tasks[2].poll() is None
    finally:
        for pid in [pid for task in tasks if task.poll() is None for pid in below(task.pid)]:
            os.kill(pid, 9)
        for task in tasks:
            task.wait(_DEADLINE)


def runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
