"""Ends from outside that only processes of this machine know; the others are in the conformance kit."""

from __future__ import annotations

import json
import os
import signal

import pytest

from kedge.testing.wait import wait_until

from .conftest import TIMEOUT, Kedge


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_while_the_code_is_copied_leaves_nothing(kedge: Kedge, number: signal.Signals) -> None:
    code = kedge.folder / "code"
    code.mkdir()
    for index in range(10_000):
        (code / str(index)).touch()
    process = kedge.start("run", kedge.job("true"), "--workdir", code)
    wait_until(lambda: list(kedge.jobs.glob("*/code/.workdir.new")), TIMEOUT)
    process.send_signal(number)
    kedge.finish(process, 130)
    assert kedge.runs() == []


def test_a_killed_supervisor_is_reported_and_its_tree_ended(kedge: Kedge) -> None:
    job = kedge.job("setsid sleep 1000 & echo ready; sleep 1000", extras={"kedge": {"retry": {"maxTransient": 0}}})
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    events = (kedge.only_run() / "attempt-0" / "worker-0" / "events.jsonl").read_text().splitlines()
    os.kill(json.loads(events[0])["pid"], signal.SIGKILL)
    assert "supervisor was killed by SIGKILL" in kedge.finish(process, 1)
    assert kedge.leftovers() == []


def test_a_stranger_who_kills_a_task_causes_a_transient_retry(kedge: Kedge) -> None:
    job = kedge.job("echo ready; [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] || sleep 1000")
    process = kedge.start("run", job)
    kedge.wait_for_output("ready")
    log = (kedge.only_run() / "attempt-0" / "worker-0" / "events.jsonl").read_text()
    (running,) = [e for e in map(json.loads, log.splitlines()) if e["event"] == "running"]
    os.killpg(running["pid"], signal.SIGKILL)
    said = kedge.finish(process, 0)
    assert "transient failure" in said
    assert "attempt 2" in said
