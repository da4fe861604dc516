"""Work in an isolated process: its results, and all ways in which it can fail."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

PROGRAM = """
import ctypes, os, signal
from kedge.runtime.postmortem import isolated
from kedge.runtime.process import children, signals
from kedge.runtime.process.loop import Loop

signals.take_over()
children.become_subreaper()

def work():
    yield {"first": 1}
    WORK
    yield {"second": os.getpid()}

answer = isolated.run(Loop(), work, LIMIT)
print(answer.values.get("first"), answer.values.get("second", os.getpid()) != os.getpid(), answer.problem)
print(answer.traceback)
"""


def run(work, limit=60.0):
    """The first line says what came, whether from another process, and the problem; the second is the traceback."""
    program = PROGRAM.replace("WORK", work).replace("LIMIT", str(limit))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    first, _, rest = done.stdout.partition("\n")
    return first, rest.strip()


def test_work_is_done_in_another_process():
    assert run("pass") == ("1 True None", "")


def test_large_results_are_passed_completely():
    assert run('yield {"much": "x" * 5_000_000}') == ("1 True None", "")


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "its process died"),
        ("ctypes.string_at(0)", "its process died"),
        ("os._exit(0)", "its process died"),
    ],
)
def test_results_before_a_crash_are_kept(work, problem):
    assert run(work) == (f"1 False {problem}", "")


@pytest.mark.parametrize("work", ["signal.pause()", "while True: pass", "os.system('sleep 1000')"])
def test_work_that_takes_too_long_is_ended(work):
    assert run(work, 5.0) == ("1 False it took longer than 5 seconds", "")


DAEMON = "os.system('env -i setsid sh -c \"(sleep NAP >/dev/null 2>&1 </dev/null &)\"')"


@pytest.mark.parametrize("rest", ["signal.pause()", "pass"])
def test_daemons_of_the_work_are_ended_with_it(rest):
    nap = f"{uuid.uuid4().int % 10**8 + 10**6}"
    first, _ = run(f"{DAEMON.replace('NAP', nap)}; {rest}", 1.0 if "pause" in rest else 60.0)
    assert first == ("1 False it took longer than 1 seconds" if "pause" in rest else "1 True None")
    assert subprocess.run(["pgrep", "-f", f"^sleep {nap}$"], capture_output=True, check=False).stdout == b""


def test_an_error_comes_with_its_traceback():
    first, rest = run("raise KeyError('gone')")
    assert first == "1 False it met a bug in kedge"
    assert rest.startswith("[ERROR] a bug in kedge")
    assert rest.endswith("KeyError: 'gone'")


def test_memory_is_limited():
    first, rest = run("bytearray(2 << 30)")
    assert first == "1 False it met a bug in kedge"
    assert "MemoryError" in rest
