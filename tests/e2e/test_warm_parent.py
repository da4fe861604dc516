"""Supervisors that are forked from a warm parent are like those with an interpreter of their own."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kedge import processes
from kedge.contract import SPEC_FILE
from kedge.engines.local import warm_parent
from kedge.engines.local.backend import STOP_SIGNALS
from kedge.engines.local.warm_parent import WarmParent, WarmParentLost
from kedge.packed_runtime import FOLDER
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge

TASKS = warm_parent.WORTHWHILE
LAUNCHER = 4  # words of the command line before the arguments
# Binds its port, waits for a file, and fails once.
COMMAND = """
python -c 'import os, socket; socket.create_server(("", int(os.environ["PAI_CONTAINER_HOST_PORT"])))'
ls -l /proc/self/fd >$PAI_LOG_DIR/fds
echo ready
until [ -e {go} ]; do sleep 0.02; done
exit $((1 - FC_TASK_ATTEMPT_ID))
"""


@pytest.fixture
def running(kedge: Kedge) -> Kedge:
    """A job of as many tasks as make a warm parent worthwhile. All wait, for a file that makes them fail once."""
    roles = {"worker": {"instances": TASKS, "taskRetryCount": 1, "completion": {"minFailedInstances": -1}}}
    job = kedge.job(COMMAND.format(go=kedge.folder / "go"), roles=roles, extras={"gangAllocation": False})
    kedge.start("run", job)
    for index in range(TASKS):
        kedge.wait_for_output("ready", f"worker-{index}")
    return kedge


def finish(kedge: Kedge) -> None:
    """Let the tasks fail; their second attempts succeed."""
    (kedge.folder / "go").touch()
    kedge("wait", kedge.only_run().name)
    retries = [event for event in kedge.events() if event["event"] == "task-retrying"]
    assert len(retries) == TASKS
    assert not kedge.leftovers()


def supervisor(kedge: Kedge, task: str) -> int:
    first = (kedge.task(task) / "events.jsonl").read_text().splitlines()[0]
    pid: int = json.loads(first)["pid"]
    return pid


def command_line(pid: int) -> list[str]:
    """Empty if the process has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    return []


def parent_of(kedge: Kedge) -> int:
    """The pid of the warm parent."""
    below = (process.pid for process in processes.descendants(kedge.controller()))
    (found,) = (pid for pid in below if "--warm" in command_line(pid))
    return found


def test_they_look_the_same(running: Kedge) -> None:
    warm = parent_of(running)
    for index in range(TASKS):
        pid = supervisor(running, f"worker-{index}")
        spec = str(running.task(f"worker-{index}") / SPEC_FILE)
        assert command_line(pid)[: LAUNCHER + 2] == [*command_line(warm)[:LAUNCHER], spec, "--open-files"]
        assert f"KEDGE_JOB_ID={running.only_run().name}" in Path(f"/proc/{pid}/environ").read_text().split("\0")
        assert os.getsid(pid) == pid
        assert [each.pid for each in processes.descendants(running.controller())].count(pid) == 1
        assert pid not in [each.pid for each in processes.descendants(warm)]
        files = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
        assert not [file for file in files if file.startswith("socket:")]
        assert str(running.task(f"worker-{index}") / "supervisor.log") in files
        inherited = (running.task(f"worker-{index}") / "fds").read_text().splitlines()[1:]
        assert len(inherited) == 4  # three streams, and the folder that ls reads
    finish(running)


def test_without_it_the_job_goes_on(running: Kedge) -> None:
    os.kill(parent_of(running), signal.SIGKILL)
    wait_until(lambda: not [line for line in running.leftovers() if "--warm" in line], TIMEOUT)
    finish(running)


def test_it_ends_with_a_killed_controller(running: Kedge) -> None:
    running.lose_controller()
    wait_until(lambda: not [line for line in running.leftovers() if "--warm" in line], TIMEOUT)
    assert len(processes.of_job(running.only_run().name)) > TASKS  # the tasks continue
    running("stop", "--kill", running.only_run().name)
    assert not running.leftovers()


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[WarmParent]:
    made = WarmParent(
        [sys.executable, "-I", "-S", str(FOLDER)], dict(os.environ), STOP_SIGNALS, len(str(tmp_path)), patience_sec=0.5
    )
    yield made
    made.kill()


def request(warm: WarmParent, folder: Path, passed: dict[str, list[int]], released: list[bool]) -> int:
    """Ask for a supervisor of a task that does not exist: it complains in its log, and ends."""
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY)
    try:
        return warm.spawn([str(folder / "none.json")], log, passed, lambda: released.append(True))
    finally:
        os.close(log)


def test_one_that_does_not_react_starts_nothing_later(warm: WarmParent, tmp_path: Path) -> None:
    os.kill(warm.pid, signal.SIGSTOP)
    released: list[bool] = []
    with pytest.raises(WarmParentLost):
        request(warm, tmp_path, {}, released)
    os.kill(warm.pid, signal.SIGCONT)  # now it reads the request, and finds that nobody waits for the answer
    wait_until(lambda: not processes.descendants(warm.pid), TIMEOUT)
    assert not released
    assert (tmp_path / "log").read_text() == ""


def test_descriptors_are_passed_on(warm: WarmParent, tmp_path: Path) -> None:
    fds = [fd for _ in range(20) for fd in os.pipe()]
    released: list[bool] = []
    request(warm, tmp_path, {"--hold": fds[:30], "--status": fds[30:31], "--keep": []}, released)
    for fd in fds:
        os.close(fd)
    # A descriptor that is not open would be the first complaint.
    wait_until(lambda: "none.json: No such file" in (tmp_path / "log").read_text(), TIMEOUT)
    assert released
