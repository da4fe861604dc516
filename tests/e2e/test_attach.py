"""The viewer of a run: Ctrl-\\ detaches it, kedge attach brings it back, and the job does not depend on it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path
from select import PIPE_BUF
from typing import Any

import pytest

from kedge import processes
from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge, report
from .terminals import CTRL_C, DETACH, Terminal

WAITS = "echo ready; until [ -e ../../../go ]; do sleep 0.05; done; echo bye"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


def let_go(kedge: Kedge) -> None:
    (kedge.only_run() / "go").touch()


def background(kedge: Kedge, commands: str) -> str:
    """Start a job in the background, wait until it prints `ready`, and return its id."""
    name = kedge("run", "-d", kedge.job(commands)).stdout.strip()
    kedge.wait_for_output("ready")
    return str(name)


def names(kedge: Kedge) -> list[str]:
    return [event["event"] for event in kedge.events()]


def test_ctrl_backslash_leaves_the_job_running_and_attach_comes_back(kedge: Kedge) -> None:
    first = Terminal(kedge, "run", kedge.job(WAITS))
    first.shows("ready")
    first.press(DETACH)
    assert first.code() == 0
    run = kedge.only_run().name
    assert f"{run} continues in the background; come back with: kedge attach {run}" in first.seen
    assert "stop-requested" not in names(kedge)
    second = Terminal(kedge, "attach", "job")
    second.shows("| ready")
    second.press(DETACH)
    assert second.code() == 0
    third = Terminal(kedge, "attach", run[:-3])
    third.shows(f"{run} is running")
    let_go(kedge)
    assert third.code() == 0
    shown = third.seen
    assert shown.index("worker:0 | ready") < shown.index("worker:0 | bye") < shown.index(f"{run} Succeeded in")


@pytest.mark.parametrize("command", ["run", "attach"])
def test_a_terminal_that_is_closed_after_a_detach_does_not_reach_the_job(kedge: Kedge, command: str) -> None:
    """The viewer is a child of a shell here, which keeps the terminal."""
    job = kedge.job(WAITS)
    if command == "attach":
        background(kedge, WAITS)
    kedge_command = f"{sys.executable} -m kedge {command} {job if command == 'run' else 'job'}"
    kedge.argv = lambda args: ["/bin/sh", "-c", f"trap : QUIT; {kedge_command}; echo code $?; read line"]  # type: ignore[method-assign]
    shell = Terminal(kedge)
    del kedge.argv
    shell.shows("ready")
    shell.press(DETACH)
    shell.shows("code 0")
    shell.close()
    shell.code(closed=True)
    let_go(kedge)
    assert kedge("wait", "job").stdout == "succeeded\n"


def viewing(kedge: Kedge, command: str, lines: str) -> Terminal:
    """A job that `run` shows on a terminal, or `attach` after a start in the background. It is ready."""
    job = kedge.job(lines)
    if command == "attach":
        background(kedge, lines)
    viewer = Terminal(kedge, command, job if command == "run" else "job")
    viewer.shows("ready")
    return viewer


@pytest.mark.parametrize("command", ["run", "attach"])
def test_a_closed_terminal_stops_the_job(kedge: Kedge, command: str) -> None:
    viewer = viewing(kedge, command, WAITS)
    viewer.close()
    assert viewer.code(closed=True) == 1
    assert kedge("wait", "job", code=1).stdout == "stopped by the closed terminal\n"


def test_the_job_continues_when_attach_is_killed_or_its_reader_has_gone(kedge: Kedge) -> None:
    background(kedge, WAITS)
    viewer = kedge.start("attach", "job")
    assert viewer.stdout
    assert viewer.stdout.readline() == "worker:0 | ready\n"
    viewer.kill()
    viewer.communicate()
    gone = kedge.start("attach", "job")
    assert gone.stdout
    gone.stdout.readline()
    gone.stdout.close()
    let_go(kedge)
    assert gone.wait(TIMEOUT) == 0
    assert kedge("wait", "job").stdout == "succeeded\n"


def test_nohup_keeps_the_job_when_the_terminal_is_closed(kedge: Kedge) -> None:
    job = kedge.job(WAITS)
    plain = kedge.argv(("run", job))
    kedge.argv = lambda args: ["/usr/bin/env", "nohup", *plain]  # type: ignore[method-assign]
    viewer = Terminal(kedge)
    del kedge.argv
    kedge.wait_for_output("ready")
    viewer.close()
    let_go(kedge)
    assert viewer.code(closed=True) == 0
    assert report(kedge)["state"] == "succeeded"


@pytest.mark.parametrize("command", ["run", "attach"])
def test_ctrl_c_stops_and_a_second_one_kills(kedge: Kedge, command: str) -> None:
    viewer = viewing(kedge, command, STUBBORN)
    viewer.press(CTRL_C)
    viewer.shows("stopping all tasks")
    viewer.press(CTRL_C)
    assert viewer.code() == 130
    assert "killing the remaining tasks" in viewer.seen
    assert kedge.leftovers() == []
    assert kedge("attach", "job", code=130).stdout.count("by Ctrl-C") == 1
    assert kedge("wait", "job", code=1).stdout == "stopped by Ctrl-C\n"


def test_detaching_while_the_job_stops_leaves_it_stopping(kedge: Kedge) -> None:
    viewer = Terminal(kedge, "run", "-q", kedge.job(STUBBORN))
    kedge.wait_for_output("ready")
    viewer.press(CTRL_C)
    viewer.shows("stopping all tasks, as requested by Ctrl-C; repeat to kill them")  # also with -q
    viewer.press(DETACH)
    assert viewer.code() == 0
    assert "is being stopped in the background" in viewer.seen
    again = Terminal(kedge, "attach", "-q", "job")
    wait_until(lambda: processes.descendants(os.getpid()), TIMEOUT)
    assert "kill" not in kedge("stop", "--kill", "job").stderr
    assert again.code() == 130
    assert "| ready" not in again.seen


# kedge that gets SIGQUIT when it opens the first file of a copy of the code.
WHILE_COPYING = """
import os, signal, sys
def audit(event, args):
    if event == "open" and ".workdir.new/first" in str(args[0]): os.kill(os.getpid(), signal.SIGQUIT)
sys.addaudithook(audit)
from kedge.__main__ import main
main()"""


def test_detaching_before_the_job_is_submitted_leaves_nothing(kedge: Kedge) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    (code / "first").touch()
    done = subprocess.run(
        [sys.executable, "-c", WHILE_COPYING, "run", kedge.job("true"), "--workdir", code],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "kedge: the job has not been submitted")
    assert kedge.runs() == []


# kedge that gets SIGQUIT when it loads the first package.
WHILE_LOADING = """
import os, signal, sys, types
find = lambda name, *_: os.kill(os.getpid(), signal.SIGQUIT) if name == "click" else None
sys.meta_path.insert(0, types.SimpleNamespace(find_spec=find))
from kedge.__main__ import main
main()"""


def test_detaching_while_kedge_is_loaded_leaves_nothing(kedge: Kedge) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHILE_LOADING, "run", kedge.job("true")],
        cwd=kedge.folder, env=kedge.environment, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "kedge: the job has not been submitted\n")
    assert kedge.runs() == []


def test_detaching_while_the_job_file_is_typed_leaves_nothing(kedge: Kedge) -> None:
    viewer = Terminal(kedge, "run", "-")
    wait_until(lambda: _catches(viewer.pid, signal.SIGQUIT), TIMEOUT)
    viewer.press(DETACH)
    assert viewer.code() == 130
    assert "kedge: the job has not been submitted" in viewer.seen
    assert kedge.runs() == []


def _catches(pid: int, number: int) -> bool:
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_an_unread_viewer_can_be_left(kedge: Kedge) -> None:
    background(kedge, f"{WAITS}; seq 200000; until [ -e ../../../end ]; do sleep 0.05; done")
    viewer = kedge.start("attach", "job")
    assert viewer.stderr
    assert viewer.stdout
    assert viewer.stdout.readline() == "worker:0 | ready\n"
    let_go(kedge)
    wait_until(lambda: _unread(viewer.stdout) > PIPE_BUF * 15, TIMEOUT)  # a pipe holds 16 pages
    viewer.send_signal(signal.SIGQUIT)
    assert "continues in the background" in viewer.stderr.read()
    assert viewer.wait(TIMEOUT) == 0
    (kedge.only_run() / "end").touch()
    assert kedge("wait", "job").stdout == "succeeded\n"


def _unread(pipe: Any) -> int:
    """The bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_several_viewers_see_the_same_end(kedge: Kedge) -> None:
    background(kedge, f"{WAITS}; exit 3")
    viewers = [kedge.start("attach", "job") for _ in range(3)]
    for viewer in viewers:
        assert viewer.stdout
        assert viewer.stdout.readline() == "worker:0 | ready\n"
    let_go(kedge)
    ends = {viewer.stdout.read() for viewer in viewers if viewer.stdout}
    assert [viewer.wait(TIMEOUT) for viewer in viewers] == [1, 1, 1]
    assert len(ends) == 1
    assert "worker:0 | bye" in ends.pop()


def test_attach_shows_only_the_last_lines_of_what_was_before(kedge: Kedge) -> None:
    background(kedge, f"seq 100000; {WAITS}")
    viewer = kedge.start("attach", "job")
    assert viewer.stdout
    assert viewer.stdout.readline() == "worker:0 | 99982\n"
    let_go(kedge)
    rest = viewer.stdout.read().splitlines()
    assert rest[:21] == [f"worker:0 | {line}" for line in [*range(99983, 100001), "ready", "bye"]] + [""]


def test_json_has_every_event_and_the_last_lines(kedge: Kedge) -> None:
    background(kedge, f"seq 1000; {WAITS}")
    viewer = kedge.start("attach", "--json", "job")
    assert viewer.stdout
    found = [json.loads(viewer.stdout.readline())]
    let_go(kedge)
    found += map(json.loads, viewer.stdout)
    assert [each["event"] for each in found if each["event"] != "log"] == names(kedge)
    lines = [each["line"] for each in found if each["event"] == "log"]
    assert (len(lines), lines[-2:]) == (21, ["ready", "bye"])
    ended = kedge("attach", "--json", "job").stdout.splitlines()
    assert [json.loads(line)["event"] for line in ended] == names(kedge)


def test_attach_to_an_ended_run_prints_its_summary_and_ends_with_its_code(kedge: Kedge) -> None:
    kedge("run", kedge.job("exit 3"), code=1)
    said = kedge("attach", "job", code=1).stdout
    assert said == kedge("show", "job").stdout
    assert "Failed in" in said
    assert json.loads(kedge("show", "--json", "job").stdout)["exit_code"] == 1
    assert "there is no run 'nothing'" in kedge("attach", "nothing", code=2).stderr


def test_attach_to_a_lost_run(kedge: Kedge) -> None:
    background(kedge, WAITS)
    viewer = kedge.start("attach", "job")
    assert viewer.stdout
    viewer.stdout.readline()
    kedge.lose_controller()
    said = kedge.finish(viewer, 1)
    assert f"the job's controller is gone; end the rest of the run with kedge stop {kedge.only_run().name}" in said
    assert "Lost: its controller is gone" in said
    assert "Lost: its controller is gone" in kedge("attach", "job", code=1).stdout


def test_attach_to_a_suspended_controller_reports_it_and_ctrl_c_resumes_it(kedge: Kedge) -> None:
    background(kedge, WAITS)
    controller = kedge.controller()
    os.kill(controller, signal.SIGSTOP)
    wait_until(lambda: processes.is_suspended(controller), TIMEOUT)
    viewer = Terminal(kedge, "attach", "job")
    viewer.shows(f"(pid {controller}) is suspended; resume it with kill -CONT {controller}")
    viewer.press(CTRL_C)
    assert viewer.code() == 130


def test_a_run_that_is_removed_while_it_is_shown(kedge: Kedge) -> None:
    background(kedge, WAITS)
    viewer = kedge.start("attach", "job")
    assert viewer.stdout
    viewer.stdout.readline()
    os.kill(viewer.pid, signal.SIGSTOP)
    kedge("stop", "--kill", "job")
    kedge("rm", "job")
    os.kill(viewer.pid, signal.SIGCONT)
    assert "has been removed" in kedge.finish(viewer, 2)
