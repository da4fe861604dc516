"""Stopping: the stop ladder, which no process escapes."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from kedge import contract
from kedge.contract import STOP_COMMAND, StopPolicy
from kedge.runtime.process import procfs
from kedge.testing.wait import wait_until

NEVER = 1000.0


def read_pid(path):
    return int(wait_until(path.read_text).strip())


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_a_stop_signal_ends_the_command_with_the_jobs_signal(attempt, name):
    attempt.start("touch ready; sleep 1000")
    attempt.wait_for("ready")
    attempt.signal(getattr(signal, f"SIG{name}"))
    assert attempt.wait() == 143
    report = attempt.report
    assert (report["stopped_by"], report["killed"], report["user_exit_code"]) == (name, False, 143)
    (stopping,) = [event for event in attempt.events if event["event"] == contract.STOPPING]
    assert stopping["signal"] == name


def test_the_job_chooses_the_signal(attempt):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("USR2", NEVER))
    attempt.start("trap 'echo saved; exit 0' USR2; touch ready; while true; do sleep 0.01 || true; done")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 0
    assert attempt.stream("user-stdout") == b"saved\n"
    assert attempt.report["stopped_by"] == "TERM"
    assert attempt.report["reason"] == contract.SUCCEEDED


_LAUNCHER = """\
import os, signal, subprocess, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
signal.signal(signal.SIGINT, lambda *_: told.append(1))
ready = "trap 'echo worker got it' TERM INT; touch ready; while [ ! -e over ]; do sleep 0.01 || true; done; echo over"
worker = subprocess.Popen(["bash", "-c", ready])
while not told:
    time.sleep(0.01)
open("over", "w").close()
worker.wait()
print("launcher got it")
"""


@pytest.mark.parametrize("name", ["TERM", "INT"])
@pytest.mark.parametrize(
    "start", ["python3 launcher.py", "exec python3 launcher.py", "(cd .; python3 launcher.py) | cat"]
)
def test_only_the_command_gets_the_signal_and_its_workers_do_not(attempt, start, name):
    attempt.spec = attempt.spec._replace(stop=StopPolicy(name, NEVER, STOP_COMMAND))
    (attempt.folder / "work").mkdir(parents=True)
    (attempt.folder / "work" / "launcher.py").write_text(_LAUNCHER)
    attempt.start(start)
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    attempt.wait()
    printed = attempt.stream("user-stdout").decode().splitlines()
    if "|" not in start:  # there the reader gets the signal, too
        assert "launcher got it" in printed
    assert "worker got it" not in printed
    assert attempt.report["killed"] is False


def test_a_shell_with_a_trap_gets_the_signal_alone(attempt):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", NEVER, STOP_COMMAND))
    worker = "bash -c 'trap \"echo worker got it\" TERM; touch ready; while [ ! -e over ]; do sleep 0.01; done'"
    attempt.start(f"trap 'touch over; wait; echo saved; exit 0' TERM; {worker} & wait")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 0
    assert attempt.stream("user-stdout") == b"saved\n"


def test_workers_that_outlive_a_launcher_that_was_stopped_are_ended(attempt, alive):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", NEVER, STOP_COMMAND))
    attempt.start("sh -c 'sleep 1000 & echo $! >pid; touch ready; wait'")
    attempt.wait_for("ready")
    pid = read_pid(attempt.folder / "work" / "pid")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert not alive(pid)
    assert attempt.report["killed"] is False


def test_the_grace_period_ends_for_all_processes_if_only_the_command_got_the_signal(attempt, alive):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", 0.2, STOP_COMMAND))
    attempt.start("bash -c 'trap \"\" TERM; sleep 1000 & echo $! >pid; touch ready; wait; sleep 1000'")
    attempt.wait_for("ready")
    pid = read_pid(attempt.folder / "work" / "pid")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() in (137, 143)
    assert not alive(pid)
    assert attempt.report["killed"] is True


def test_a_command_that_ignores_the_signal_is_killed_after_the_grace_period(attempt):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", 0.2))
    attempt.start("trap '' TERM; touch ready; while true; do sleep 1; done")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 137
    assert attempt.report["killed"] is True


def test_suspended_processes_are_resumed_to_be_stopped(attempt):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", NEVER))
    other_session = "setsid sh -c 'touch ready; kill -STOP $$' &"
    attempt.start(f"{other_session} while [ ! -e ready ]; do sleep 0.01; done; kill -STOP $$")
    attempt.wait_for("ready")
    wait_until(lambda: [each.state for each in procfs.descendants(attempt.process.pid)] == ["T", "T"])
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert attempt.report["killed"] is False


def test_a_second_stop_signal_kills_at_once(attempt):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", NEVER))
    attempt.start("trap ': >told' TERM; touch ready; while true; do sleep 0.05 || true; done")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    attempt.wait_for("told")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 137
    assert attempt.report["killed"] is True


@pytest.mark.parametrize("leader", ["while true; do sleep 1; done", "exit 0"], ids=["leader-stays", "leader-ends"])
def test_descendants_in_other_sessions_do_not_escape(attempt, alive, leader):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", 0.2))
    daemon = (
        "setsid bash -c 'trap \"\" TERM; echo $$ >daemon.partial; mv daemon.partial daemon; while :; do sleep 1; done'"
    )
    attempt.start(
        f"({daemon} </dev/null >/dev/null 2>&1 &) ; while [ ! -e daemon ]; do sleep 0.01 || true; done; {leader}"
    )
    pid = read_pid(attempt.wait_for("daemon"))
    if leader != "exit 0":
        attempt.signal(signal.SIGTERM)
    attempt.wait()
    assert not alive(pid)


def test_descendants_of_a_leader_that_obeys_get_the_signal_and_the_rest_of_the_grace_period(attempt):
    attempt.spec = attempt.spec._replace(stop=StopPolicy("TERM", NEVER))
    worker = "setsid bash -c 'trap \"echo worker saved; exit\" TERM; touch ready; while :; do sleep 0.01 || true; done'"
    attempt.start(f"{worker} & wait")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert attempt.stream("user-stdout") == b"worker saved\n"
    assert attempt.report["killed"] is False


def test_leftovers_of_a_finished_command_are_ended_and_named(attempt, alive):
    daemon = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >pid"
    assert attempt.run(f"{daemon}; while [ $(cat /proc/$!/comm) != sleep ]; do :; done") == 0
    pid = int((attempt.folder / "work/pid").read_text())
    assert not alive(pid)
    assert attempt.log[-1] == f"[INFO] Ended processes that were left running: {pid} (sleep)"


def test_zombies_are_reaped_while_the_command_runs(attempt):
    attempt.start("(sleep 0 & echo $BASHPID >pid; mv pid middle); touch ready; sleep 1000")
    attempt.wait_for("ready")
    supervisor = attempt.process.pid

    def children():
        pids = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        with suppress(OSError):  # one that is just being reaped
            return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids]

    wait_until(lambda: children() == ["S"], what="only the shell is left, and no zombie")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143


@pytest.mark.parametrize("name", ["USR1", "USR2", "WINCH", "CONT"])
def test_other_signals_are_passed_on(attempt, name):
    attempt.start(f"trap 'touch got' {name}; touch ready || true; while [ ! -e got ]; do sleep 0.01 || true; done")
    attempt.wait_for("ready")
    attempt.signal(getattr(signal, f"SIG{name}"))
    assert attempt.wait() == 0


def test_a_stop_during_a_start_hook_keeps_the_command_from_starting(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("slow", taskStarts="touch ready; sleep 1000"),))
    attempt.start("touch started")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    report = attempt.report
    assert (report["reason"], report["stopped_by"]) == (contract.HOOK_FAILED, "TERM")
    assert not (attempt.folder / "work/started").exists()


def test_the_command_does_not_start_even_if_a_start_hook_survives_the_stop(attempt, step):
    hook = "trap 'touch told' TERM; touch ready; while [ ! -e told ]; do sleep 0.01 || true; done"
    attempt.spec = attempt.spec._replace(steps=(step("calm", taskStarts=hook),))
    attempt.start("touch started")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert attempt.report["reason"] == contract.COMMAND_KILLED
    assert attempt.report["user_exit_code"] is None
    assert not (attempt.folder / "work/started").exists()


def test_exit_hooks_after_a_stop_run_within_the_grace_period(attempt, step):
    attempt.spec = attempt.spec._replace(
        stop=StopPolicy("TERM", 8.0),
        steps=(step("last", containerExit="echo cleaned"), step("hangs", containerExit="echo begun; sleep 1000")),
    )
    attempt.start("touch ready; sleep 1000")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    assert "begun" in attempt.log
    assert [e["step"] for e in attempt.events if e["event"] == contract.HOOK_STARTED] == ["hangs", "last"]
    assert attempt.report["killed"] is True


def test_a_stop_ends_a_debugging_hook(attempt, step):
    attempt.spec = attempt.spec._replace(steps=(step("debug", taskFails="touch ready; sleep 1000"),))
    attempt.start("exit 3")
    attempt.wait_for("ready")
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 255
    report = attempt.report
    assert (report["user_exit_code"], report["stopped_by"]) == (3, "TERM")


def test_a_stop_before_anything_ran_is_not_lost(attempt, step):
    attempt.spec = attempt.spec._replace(
        steps=(step("first", taskStarts="kill -TERM $PPID"), step("never", taskStarts="echo 2"))
    )
    assert attempt.run("echo started") == 143
    assert attempt.stream("user-stdout") == b""
    assert "2" not in attempt.log
