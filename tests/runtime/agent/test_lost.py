"""Agents, supervisors, keepers, controllers and connections that are lost."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from kedge.jobs import link_keys
from kedge.link.launch import AgentOrders
from kedge.runtime.agent import keeper, node_folders, run
from kedge.runtime.agent.keeper import GIVEN_UP, AgentTask
from kedge.runtime.agent.state import AgentState
from kedge.runtime.process.loop import NEVER, Loop
from kedge.testing.wait import wait_until

GOES_ON = "touch ready; until [ -e go ]; do sleep 0.02; done; exit 4"


def running(agent, command=GOES_ON):
    agent.start()
    agent.run(command)
    agent.wait_for_file("ready")


def go(agent, task_attempt=0):
    agent.wait_for_file("ready", task_attempt).with_name("go").touch()


def kill_agent(agent, number=1):
    os.kill(agent.agent_pid(number), signal.SIGKILL)
    return agent.joined(number + 1)


def test_an_agent_that_is_killed_while_its_task_runs(agent, alive):
    running(agent)
    supervisor = agent.supervisor_pid()
    ports = agent.reserve()
    agent.all_is_safe()
    state = kill_agent(agent).hello.state
    assert state == {"ports": ports, "task_attempt": 0, "started": True, "ended": None}
    assert alive(supervisor)
    go(agent)
    end = agent.ended()
    assert (end["task_attempt"], end["code"], end["report"]["user_exit_code"]) == (0, 255, 4)
    assert agent.events() == ["starting", "running", "exited", "finished"]
    agent.run("true", 1)
    assert agent.ended(2)["code"] == 0
    assert agent.finish() == 0
    assert len(agent.said("ended")) == 2
    assert agent.leftovers() == []


def test_it_takes_requests_after_that(agent):
    running(agent)
    kill_agent(agent)
    agent.control("stop")
    assert agent.ended()["report"]["stopped_by"] == "TERM"


def test_a_supervisor_that_ends_while_there_is_no_agent(agent):
    running(agent)
    os.kill(agent.process.pid, signal.SIGSTOP)  # the keeper starts no agent meanwhile
    os.kill(agent.agent_pid(), signal.SIGKILL)
    supervisor = agent.supervisor_pid()
    go(agent)
    stat = Path(f"/proc/{supervisor}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
    os.kill(agent.process.pid, signal.SIGCONT)
    end = agent.ended()
    assert (end["code"], end["report"]["user_exit_code"]) == (255, 4)
    assert agent.events()[-2:] == ["exited", "finished"]


def test_another_process_with_the_number_of_the_supervisor_is_not_taken_for_it(agent, alive):
    running(agent)
    agent.all_is_safe()
    os.kill(agent.process.pid, signal.SIGSTOP)  # the keeper starts no agent meanwhile
    os.kill(agent.agent_pid(), signal.SIGKILL)
    with subprocess.Popen(["sleep", "1000"]) as other:
        state = json.loads(agent.state_file.read_text())
        agent.state_file.write_text(json.dumps({**state, "pid": other.pid}))
        os.kill(agent.process.pid, signal.SIGCONT)
        assert (agent.ended()["task_attempt"], agent.ended()["code"]) == (0, None)
        assert alive(other.pid)
        other.kill()


def test_an_agent_that_is_killed_after_the_end_tells_it(agent):
    running(agent, "touch ready; exit 4")
    agent.ended()
    ended = kill_agent(agent).hello.state["ended"]
    assert (ended["task_attempt"], ended["code"], ended["report"]["user_exit_code"]) == (0, 255, 4)
    assert agent.finish() == 0


@pytest.mark.parametrize("files", [True, False])
def test_an_agent_that_is_killed_in_the_middle_of_the_start(agent, files):
    agent.start()
    ports = agent.reserve()
    os.kill(agent.process.pid, signal.SIGSTOP)
    os.kill(agent.agent_pid(), signal.SIGKILL)
    state = {"ports": ports, "task_attempt": 0, "folder": str(agent.task_folder())}
    agent.state_file.write_text(json.dumps(state))
    if files:
        agent.state_file.with_name("0").mkdir()
        for name in ("status", "control"):
            os.mkfifo(agent.state_file.parent / "0" / name)
    os.kill(agent.process.pid, signal.SIGCONT)
    end = agent.ended()
    assert (end["task_attempt"], end["report"], end["code"]) == (0, None, None)
    assert "was killed while it started" in end["text"]
    agent.run("true", 1)
    assert agent.ended(2)["code"] == 0


def test_an_agent_that_is_killed_before_it_has_saved_what_it_has_started(agent):
    running(agent)
    agent.all_is_safe()
    os.kill(agent.process.pid, signal.SIGSTOP)
    os.kill(agent.agent_pid(), signal.SIGKILL)
    state = json.loads(agent.state_file.read_text())
    agent.state_file.write_text(json.dumps({**state, "pid": None, "start_time": 0}))
    os.kill(agent.process.pid, signal.SIGCONT)
    agent.joined(2)
    go(agent)
    end = agent.ended()
    assert (end["code"], end["report"]["user_exit_code"], end["text"]) == (255, 4, "")
    agent.run("true", 1)
    assert agent.ended(2)["code"] == 0


def test_an_agent_that_is_killed_before_the_start_holds_the_ports_again(agent, bound):
    agent.start()
    ports = agent.reserve()
    assert kill_agent(agent).hello.state["ports"] == ports
    assert all(bound(port) for numbers in ports.values() for port in numbers)
    assert agent.reserve() == ports
    agent.run("true")
    assert agent.ended()["code"] == 0


def test_an_agent_that_is_killed_too_often(agent, alive):
    running(agent)
    supervisor = agent.supervisor_pid()
    for number in range(1, 5):
        kill_agent(agent, number)
    os.kill(agent.agent_pid(5), signal.SIGKILL)
    assert agent.process.wait(60) == GIVEN_UP
    assert not alive(supervisor)
    assert agent.leftovers() == []


def test_a_keeper_that_is_killed_leaves_nothing_running(agent, alive):
    running(agent, "setsid sleep 1000 & echo $! > pid; touch ready; sleep 1000")
    pids = [agent.agent_pid(), agent.supervisor_pid(), int(agent.wait_for_file("pid").read_text())]
    agent.process.kill()
    agent.process.wait()
    wait_until(lambda: not any(map(alive, pids)))
    assert agent.leftovers() == []


def test_a_controller_that_is_started_again_elsewhere(agent):
    running(agent)
    ports = agent.reserve()
    agent.restart_controller()
    joined = agent.joined(2)
    assert joined.hello.agent == agent.joined().hello.agent
    assert joined.hello.state == {"ports": ports, "task_attempt": 0, "started": True, "ended": None}
    agent.run(GOES_ON)  # what it has begun already
    go(agent)
    assert agent.ended()["report"]["user_exit_code"] == 4
    assert agent.finish() == 0
    assert len(agent.said("ended")) == 1


def test_a_task_goes_on_without_a_controller_and_is_told_once(agent, alive):
    running(agent)
    supervisor = agent.supervisor_pid()
    agent.lose_controller()
    go(agent)
    wait_until(lambda: not alive(supervisor))
    agent.restart_controller()
    end = agent.joined(2).hello.state["ended"] or agent.ended()
    assert end["report"]["user_exit_code"] == 4
    assert agent.finish() == 0
    assert len(agent.said("ended")) <= 1


AGENT = [sys.executable, "-I", "-S", str(Path(__file__).parents[3] / "src/kedge/runtime/agent")]
OPTIONS = ["--index-variable", "INDEX", "--node-variable", "NODE"]


@pytest.mark.parametrize(
    ("arguments", "line", "error"),
    [
        (["--index-variable"], "", "usage: "),
        ([], "", "usage: "),
        ([*OPTIONS, "--else", "1"], "", "unknown option --else 1"),
        (OPTIONS, "", "stdin is empty"),
        (OPTIONS, "[]", "the line on stdin does not hold the orders of an agent"),
    ],
)
def test_wrong_starts(arguments, line, error):
    done = subprocess.run([*AGENT, *arguments], input=line, capture_output=True, text=True)
    assert done.returncode == 2
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_an_index_without_a_token(agent):
    agent.start(tokens=[])
    assert agent.process.wait(60) == 2


def test_an_agent_without_a_task_or_a_controller_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ORPHAN_SEC", 0.2)
    assert _alone(tmp_path, monkeypatch, AgentState()) == GIVEN_UP


def test_an_agent_that_alone_knows_how_its_task_has_ended_waits_for_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ORPHAN_SEC", 0.0)
    monkeypatch.setattr(run, "HEIR_SEC", 0.5)
    end = {"task_attempt": 0, "code": 0, "report": None}
    ended = AgentState(task_attempt=0, folder=str(tmp_path), ended=end, safe=False)
    began = time.monotonic()
    assert _alone(tmp_path, monkeypatch, ended) == GIVEN_UP
    assert time.monotonic() - began >= 0.5


def test_the_time_in_which_the_whole_job_was_suspended_does_not_count(tmp_path, monkeypatch):
    turns, real = [], time.monotonic

    class SuspendedOnce(Loop):
        def turn(self, deadline=NEVER):
            super().turn(deadline)
            if turns or now() >= deadline:
                turns.append(deadline)

    def now():
        return real() + (10_000.0 if turns else 0.0)

    monkeypatch.setattr(time, "monotonic", now)
    monkeypatch.setattr(run, "Loop", SuspendedOnce)
    monkeypatch.setattr(run, "AgentConnection", partial(run.AgentConnection, now=now))
    monkeypatch.setattr(run, "ORPHAN_SEC", 1.0)
    assert _alone(tmp_path, monkeypatch, AgentState()) == GIVEN_UP
    assert len(turns) > 1


def test_an_agent_that_cannot_be_started_is_tried_again(tmp_path, monkeypatch, capfd):
    real, tries = os.fork, []

    def fork():
        tries.append(None)
        if len(tries) < 3:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return real()

    def keep(task, folders):
        pid = real()
        if pid == 0:
            os._exit(keeper.keep(task, folders))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(run, "ORPHAN_SEC", 0.0)
    assert _alone(tmp_path, monkeypatch, AgentState(), keep) == GIVEN_UP
    said = "the agent of me~none-0-worker-0 on n7 could not be started: Resource temporarily unavailable\n"
    assert capfd.readouterr().err.count(said) == 2


def _run(task, folders):
    """The exit code of an agent that is started again in this process."""
    told, tell = os.pipe2(os.O_NONBLOCK)
    try:
        return run.run(task, folders, told, restarted=True)
    finally:
        os.close(told)
        os.close(tell)


def _alone(tmp_path, monkeypatch, state, start=_run):
    """The exit code of an agent whose files are mirrored, in this state, which finds no controller."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    orders = AgentOrders(
        ["127.0.0.1"], 1, link_keys.made().certificate, "me~none", None, 0, "worker", ["x"], mirrored=1
    )
    orders = orders._replace(mirrored=1)
    folders = node_folders.make(f"none-{os.getpid()}")
    try:
        state.save(folders.files)
        return start(AgentTask(orders, 0, "n7", None, None), folders)
    finally:
        folders.remove()
        for fd in folders.locks:
            os.close(fd)
