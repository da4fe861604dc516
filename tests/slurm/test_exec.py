"""`kedge exec` beside tasks on a cluster."""

from __future__ import annotations

import signal

import pytest
from tests.e2e.terminals import CTRL_C, Terminal

from .kedge_on_slurm import OnSlurm
from .test_jobs import WAITS

COMPONENTS = {  # they differ, so each is a component of its own
    "worker": {"instances": 1, "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}},
    "server": {"instances": 1, "resourcePerInstance": {"cpu": 3, "memoryMB": 64, "gpu": 0}},
}
PROGRAM = ("sh", "-c", "exec 2> /dev/null; trap 'echo caught; exit 9' INT; echo started; while :; do sleep 0.1; done")


@pytest.mark.parametrize(("number", "output", "code"), [(signal.SIGINT, "caught\n", 9), (signal.SIGHUP, "", 129)])
def test_signals_reach_a_program_in_any_component(kedge: OnSlurm, number: int, output: str, code: int) -> None:
    run = kedge("run", "-d", kedge.job(WAITS, roles=COMPONENTS)).stdout.strip()
    for role in COMPONENTS:
        kedge.wait_for_output("ready", f"{role}-0")
    assert "het" in (kedge.jobs / run / "cluster" / "script.sh").read_text()
    for role in COMPONENTS:
        program = kedge.start("exec", run, f"{role}:0", "--", *PROGRAM)
        assert program.stdout
        assert program.stdout.readline() == "started\n"
        program.send_signal(number)
        assert kedge.finish(program, code) == output
    kedge.let_go(run)
    kedge("wait", run)
    assert kedge.leftovers() == []


def test_keys_reach_a_program_that_has_a_terminal_without_i(kedge: OnSlurm) -> None:
    run = kedge("run", "-d", kedge.job(WAITS)).stdout.strip()
    kedge.wait_for_output("ready", "worker-0")
    terminal = Terminal(kedge, "exec", "-t", run, "worker:0", "--", "sh", "-c", "echo up; exec sleep 1000")
    terminal.shows("up")
    terminal.press(CTRL_C)
    assert terminal.code() == 128 + signal.SIGINT
    kedge.let_go(run)
    kedge("wait", run)
