"""Which task failed first for a reason of its own."""

from __future__ import annotations

import json

import pytest

from kedge.diagnose.classify import classify
from kedge.diagnose.job import FAILED, STOPPED_STATE, SUCCEEDED, TaskResult, repeats, verdict
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.diagnose.packaged import packaged

RULES = packaged()

OOM = b"""Traceback (most recent call last):
  File "t.py", line 8, in <module>
    f()
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB
"""
TIMEOUT = b"[rank1]:[E1218 ProcessGroupNCCL.cpp:629] Watchdog caught collective operation timeout: WorkNCCL()\n"


def diagnosis(log: bytes, code: int | None = 1) -> Diagnosis:
    return classify(Evidence((("log", log),), code), RULES)


def failed(task: str, ended: float, log: bytes, code: int = 1, phase: str = "command") -> TaskResult:
    return TaskResult(task, FAILED, ended, diagnosis(log, code), phase)


def test_a_cause_beats_symptoms_that_came_before_it() -> None:
    found = verdict(
        [
            failed("w:0", 1, TIMEOUT),
            failed("w:1", 2, TIMEOUT),
            failed("w:2", 30, OOM),
            TaskResult("w:3", STOPPED_STATE, 31),
        ]
    )
    assert found.task == "w:2"
    assert found.summary() == "3 other tasks failed or stopped after it: nccl_timeout ×2, stopped ×1"


def test_of_two_causes_the_first_counts() -> None:
    late, early = failed("w:0", 100, b"ModuleNotFoundError: No module named 'x'\n"), failed("w:1", 10, OOM)
    assert verdict([late, early]).task == "w:1"


def test_within_the_slack_of_clocks_the_surer_one_counts() -> None:
    vague = failed(
        "w:0", 10, b'Traceback (most recent call last):\n  File "t.py", line 8, in <module>\n    f()\nMyError: odd\n'
    )
    assert vague.diagnosis is not None
    assert vague.diagnosis.confidence == "likely"
    assert verdict([vague, failed("w:1", 12, OOM)]).task == "w:1"
    assert verdict([vague, failed("w:1", 20, OOM)]).task == "w:0"


def test_a_failed_hook_is_a_reason_of_its_own() -> None:
    hook = failed("w:0", 10, b"", code=3, phase="hook")
    assert verdict([failed("w:1", 5, TIMEOUT), hook, failed("w:2", 4, b"", code=137)]).task == "w:0"


def test_who_only_lost_its_peer_is_not_the_root() -> None:
    lost = failed(
        "w:0", 1, b"RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:4\n"
    )
    assert verdict([lost, failed("w:1", 3, b"", code=139)]).task == "w:1"


def test_nothing_failed() -> None:
    found = verdict([TaskResult("w:0", SUCCEEDED, 1)])
    assert (found.task, found.diagnosis, found.others) == (None, None, ())


def test_it_is_json() -> None:
    found = json.loads(json.dumps(verdict([failed("w:0", 1, OOM), failed("w:1", 2, TIMEOUT)]).to_json()))
    assert found["diagnosis"]["cause"] == "gpu_oom"
    assert found["others"] == [{"kind": "nccl_timeout", "count": 1, "tasks": ["w:1"]}]


@pytest.mark.parametrize(("log", "again"), [(OOM, True), (TIMEOUT, False), (b"odd\n", False)])
def test_the_same_failure_again(log: bytes, again: bool) -> None:
    assert repeats(diagnosis(log), diagnosis(log)) is again


def test_another_place_is_another_failure() -> None:
    assert not repeats(diagnosis(OOM), diagnosis(OOM.replace(b"line 8", b"line 9")))
