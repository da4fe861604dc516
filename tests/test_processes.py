from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kedge.processes import (
    Process,
    descendants,
    identify,
    is_alive,
    kill,
    kill_tree,
    of_job,
    send,
    wait,
)
from kedge.testing.wait import wait_until

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a shell script that prints a line when it is ready."""
    started: list[subprocess.Popen[str]] = []
    mark = uuid.uuid4().hex

    def begin(script: str, **variables: str) -> subprocess.Popen[str]:
        command = ["bash", "-c", script]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | variables | {"STARTED_BY": mark},
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline()
        return process

    yield begin
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout
        process.stdout.close()
        process.wait()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if mark.encode() in environ.read_bytes():
                os.kill(int(environ.parent.name), signal.SIGKILL)


@pytest.fixture
def nap() -> str:
    """A sleep time that no other test uses, so that this test's processes can be recognised."""
    return f"{uuid.uuid4().int % 10**8 + 10**6}"


def who(process: subprocess.Popen[str]) -> Process:
    found = identify(process.pid)
    assert found
    return found


def named(nap: str) -> list[int]:
    """The processes that sleep for `seconds`."""
    listed = subprocess.run(["pgrep", "-f", f"^sleep {nap}$"], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in listed.split()]


def test_identity(start: Start, nap: str) -> None:
    process = start(f"echo; read line < <(sleep {nap})")
    found = who(process)
    assert found.pid == process.pid
    assert is_alive(found)
    assert not is_alive(found._replace(start_time=found.start_time - 1))
    assert not send(found._replace(start_time=found.start_time - 1), signal.SIGKILL)
    assert is_alive(found)


def test_a_name_with_brackets_and_spaces_does_no_harm(start: Start, nap: str) -> None:
    process = start(f"printf 'a) Z 1 1 (b' > /proc/self/comm; sleep {nap} & echo; wait")
    assert is_alive(who(process))
    assert len(descendants(process.pid)) == 1


def test_a_zombie_is_not_alive(start: Start) -> None:
    process = start("echo")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert identify(process.pid) is None
    process.wait()
    assert identify(process.pid) is None


def test_send_and_wait(start: Start, nap: str) -> None:
    process = start(f"trap 'exit 7' TERM; echo; while :; do sleep {nap} & wait; done")
    found = who(process)
    assert wait([found], 0.0) == [found]
    assert send(found, signal.SIGTERM)
    assert wait([found], 60) == []
    assert process.wait() == 7
    assert not send(found, signal.SIGTERM)


def test_a_program_whose_main_thread_has_ended_is_alive() -> None:
    script = (
        "import ctypes, threading, sys\n"
        "threading.Thread(target=sys.stdin.readline).start(); print(flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        found = identify(process.pid)
        assert found
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: b") Z " in stat.read_bytes(), what="the main thread to end")
        assert is_alive(found)
        assert wait([found], 0.0) == [found]
        assert kill_tree(process.pid, 60) == []


def test_of_job_finds_all_processes_of_that_job_only(start: Start, nap: str) -> None:
    job = f"digits-{nap}"
    ours = start(f"sleep {nap} & setsid sleep {nap} & echo; wait", KEDGE_JOB_ID=job)
    start(f"echo; sleep {nap}1 & wait", KEDGE_JOB_ID=f"{job}g")
    start(f"echo; sleep {nap}1 & wait", OTHER_KEDGE_JOB_ID=job)
    wait_until(lambda: len(named(nap)) == 2)
    assert {process.pid for process in of_job(job)} == {ours.pid, *named(nap)}
    assert of_job("digits") == []


def test_of_job_finds_what_has_lost_its_environment(start: Start, nap: str) -> None:
    ours = start(f"env -i sleep {nap} & echo; wait", KEDGE_JOB_ID=nap)
    wait_until(lambda: named(nap))
    assert {process.pid for process in of_job(nap)} == {ours.pid, *named(nap)}


def test_of_job_leaves_out_the_caller() -> None:
    script = "from kedge.processes import of_job; print(of_job('digits-self'))"
    environment = os.environ | {"KEDGE_JOB_ID": "digits-self"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_descendants(start: Start, nap: str) -> None:
    others = descendants(os.getpid())  # of tests before
    process = start(f"(sleep {nap} & setsid sleep {nap} & wait) & echo; wait")
    wait_until(lambda: len(named(nap)) == 2)
    below = {found.pid for found in descendants(process.pid)}
    assert below > set(named(nap))
    assert len(below) == 3
    assert descendants(os.getpid(), {process.pid}) == others
    (subshell,) = below - set(named(nap))
    assert descendants(process.pid, {subshell}) == []


def test_kill_tree_reaches_sessions_of_their_own_and_those_who_ignore(start: Start, nap: str) -> None:
    process = start(f"trap '' TERM HUP; (setsid bash -c 'trap \"\" TERM; sleep {nap} & sleep {nap}') & echo; wait")
    wait_until(lambda: len(named(nap)) == 2)
    assert kill_tree(process.pid, 60) == []
    assert process.wait() == -signal.SIGKILL
    assert named(nap) == []


def test_kill_tree_reaches_what_is_stopped(start: Start, nap: str) -> None:
    process = start(f"sleep {nap} & kill -STOP $!; echo; wait")
    assert kill_tree(process.pid, 60) == []
    assert named(nap) == []


def test_kill_tree_keeps_up_with_forks(start: Start, nap: str) -> None:
    process = start(f"echo; for n in {{1..100}}; do (sleep {nap} & sleep {nap}) & done; wait")
    wait_until(lambda: len(named(nap)) > 5)
    assert kill_tree(process.pid, 60) == []
    assert named(nap) == []


def test_kill_tree_of_nobody() -> None:
    assert kill_tree(2**22 + 1) == []


ORPHANS = """
import ctypes, os, signal, subprocess, sys
nap = sys.argv[1]
from kedge.processes import descendants, kill_orphans
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
known = subprocess.Popen(["bash", "-c", f"sleep {nap}1 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True)
known.stdout.readline()
script = f"setsid sleep {nap} & sleep {nap} & echo; wait"
killed = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE)
killed.stdout.readline()
while len(descendants(killed.pid)) < 2: pass
killed.kill(); killed.wait()
print(len(descendants(os.getpid(), {known.pid})), kill_orphans({known.pid}, 60))
print(len(descendants(os.getpid(), {known.pid})), known.poll(), len(descendants(known.pid)))
os.killpg(known.pid, signal.SIGKILL)
"""


def test_kill_orphans_spares_the_known(nap: str) -> None:
    done = subprocess.run([sys.executable, "-c", ORPHANS, nap], capture_output=True, text=True, check=True)
    assert done.stdout == "2 []\n0 None 1\n"
    assert named(nap) == []


def test_kill_gives_up_at_the_deadline_on_another_users_process(start: Start, nap: str) -> None:
    if os.getuid() != 0:
        pytest.skip("another user's process can only be made by root")
    theirs = who(start(f"echo; exec sleep {nap}"))
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            os._exit(0 if kill(lambda: [theirs], 0.2) == [theirs] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert is_alive(theirs)


def test_kill_orphans_with_none() -> None:
    script = "from kedge.processes import kill_orphans; print(kill_orphans(()))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
