"""Clients come and go, on this machine and on another one. Jobs of one file run beside each other."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .kedge_on_kubernetes import OnKubernetes
from .namespaces import UNTIL_TOLD, Namespace

LINES = f"for i in $(seq 40); do echo line $i; sleep 0.1; done; {UNTIL_TOLD} sleep 0.2; done; echo end"
LOG = "".join(f"line {number}\n" for number in range(1, 41)) + "end\n"


@pytest.fixture
def elsewhere(kedge: OnKubernetes, namespace: Namespace, tmp_path: Path) -> OnKubernetes:
    """The same user on another machine: with the kubeconfig, and nothing else."""
    home = tmp_path / "elsewhere"
    home.mkdir()
    other = OnKubernetes(home, namespace, Path(kedge.environment["XDG_CACHE_HOME"]))
    other.environment["HOME"] = str(home)
    return other


def test_a_client_is_killed_and_others_come(kedge: OnKubernetes, elsewhere: OnKubernetes) -> None:
    job = kedge.job(LINES)
    killed, stopped = kedge.start("run", job), kedge.start("run", job)  # two jobs at once
    wait_until(lambda: len(_logs(kedge)) == 2 and all("line 9\n" in log for log in _logs(kedge).values()), TIMEOUT)
    first, second = (run.name for run in kedge.runs())
    # The client of one of them is killed, and another machine takes over.
    for process in (killed, stopped):
        os.killpg(process.pid, signal.SIGKILL)
    listed = elsewhere("ps", "--engine", "kubernetes").stdout
    assert [each in listed for each in (first, second)] == [True, True]
    following = elsewhere.start("logs", "--follow", first)
    attached, waiting = elsewhere.start("attach", first), kedge.start("wait", first)
    elsewhere("stop", second)
    kedge("wait", second, code=1)
    assert "stopped" in elsewhere("show", second).stdout
    kedge.namespace.let_go_on(f"{first}-a0-worker-0")
    assert "succeeded" in kedge.finish(waiting, 0)
    assert _lines(elsewhere.finish(following, 0)) == LOG
    assert "Succeeded" in elsewhere.finish(attached, 0)
    # Both machines have all of it in the end, and the other run has kept what came before its stop.
    logs = _logs(kedge)
    assert logs[first] == _logs(elsewhere)[first] == LOG
    assert logs[second] == _logs(elsewhere)[second]
    assert LOG.startswith(logs[second])
    assert kedge("ps", "--all").stdout.count("succeeded") == 1
    assert kedge.leftovers() == []


def _logs(kedge: OnKubernetes) -> dict[str, str]:
    """What the tasks of all runs have printed so far, as far as this machine has it."""
    files = {run.name: run / "attempt-0" / "worker-0" / "user-all" / "current" for run in kedge.runs()}
    return {name: file.read_text() if file.exists() else "" for name, file in files.items()}


def _lines(said: str) -> str:
    """The output of the only task."""
    return "".join(f"{line.partition('| ')[2]}\n" for line in said.splitlines() if "| " in line)
