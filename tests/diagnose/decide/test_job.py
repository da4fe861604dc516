"""Which task failed first for a reason of its own."""

from __future__ import annotations

import json

import pytest

from kedge.diagnose.decide.classify import classify
from kedge.diagnose.decide.job import TaskResult, repeats, verdict
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.diagnose.rules.packaged import packaged
from kedge.states import State

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
    return TaskResult(task, State.FAILED, ended, diagnosis(log, code), phase)


def test_a_cause_beats_symptoms_that_came_before_it() -> None:
    found = verdict(
        [
            failed("w:0", 1, TIMEOUT),
            failed("w:1", 2, TIMEOUT),
            failed("w:2", 30, OOM),
            TaskResult("w:3", State.STOPPED, 31),
        ]
    )
    assert found.task == "w:2"
    assert found.summary() == "3 other tasks failed or stopped after it: nccl_timeout ×2, stopped ×1"


def test_the_first_of_two_causes_counts() -> None:
    late, early = failed("w:0", 100, b"ModuleNotFoundError: No module named 'x'\n"), failed("w:1", 10, OOM)
    assert verdict([late, early]).task == "w:1"


def test_within_the_clock_slack_the_surer_cause_counts() -> None:
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


def test_a_task_that_only_lost_its_peer_is_not_the_root() -> None:
    lost = failed(
        "w:0", 1, b"RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:4\n"
    )
    assert verdict([lost, failed("w:1", 3, b"", code=139)]).task == "w:1"


def test_nothing_failed() -> None:
    found = verdict([TaskResult("w:0", State.SUCCEEDED, 1)])
    assert (found.task, found.diagnosis, found.others) == (None, None, ())


def test_it_is_json() -> None:
    found = json.loads(json.dumps(verdict([failed("w:0", 1, OOM), failed("w:1", 2, TIMEOUT)]).to_json()))
    assert found["diagnosis"]["cause"] == "gpu_oom"
    assert found["others"] == [{"kind": "nccl_timeout", "count": 1, "tasks": ["w:1"]}]


@pytest.mark.parametrize(("log", "again"), [(OOM, True), (TIMEOUT, False), (b"odd\n", False)])
def test_the_same_failure_again(log: bytes, again: bool) -> None:
    assert repeats(diagnosis(log), diagnosis(log)) is again


def test_a_failure_at_another_place_is_another_failure() -> None:
    assert not repeats(diagnosis(OOM), diagnosis(OOM.replace(b"line 8", b"line 9")))


KEY = b'Traceback (most recent call last):\n  File "t.py", line 8, in <module>\n    f()\nKeyError: 1\n'
CLOSED = b"RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:4\n"


def stopped(task: str, ended: float, log: bytes, after: bytes = b"") -> TaskResult:
    """A task that kedge stopped, which then said `after`."""
    evidence = Evidence((("log", log + after),), 143, stopped_by="SIGTERM", after_stop=len(after))
    return TaskResult(task, State.STOPPED, ended, classify(evidence, RULES))


def test_a_task_that_failed_before_it_was_stopped_is_the_root() -> None:
    found = verdict(
        [failed("w:0", 1, CLOSED), failed("w:1", 2, b"odd\n", code=3), stopped("w:2", 9, b"step 1\n" + KEY)]
    )
    assert (found.task, found.diagnosis and found.diagnosis.cause) == ("w:2", "python_bug")
    assert sum(len(fold.tasks) for fold in found.others) == 2


@pytest.mark.parametrize(
    ("log", "after"),
    [
        (b"step 1\n", KEY),  # what comes after the stop comes of it
        (CLOSED, b""),  # a victim, too
        (KEY.replace(b"<module>", b"load") + b"".join(b"step %d loss 1\n" % n for n in range(9)), b""),  # it went on
        (b"step 1\n", b"Traceback (most recent call last):\n  File \"t.py\", line 8, in <module>\nKeyboardInterrupt\n"),
    ],
)  # fmt: skip
def test_a_task_that_was_only_stopped_is_not(log: bytes, after: bytes) -> None:
    one = stopped("w:2", 9, log, after)
    assert one.diagnosis is not None
    assert not one.diagnosis.before_stop
    assert verdict([failed("w:0", 1, OOM), one]).task == "w:0"
    assert verdict([failed("w:0", 1, CLOSED), one]).task == "w:0"


def test_a_failed_task_beats_a_stopped_one_unless_it_failed_later() -> None:
    assert verdict([failed("w:0", 1, OOM), stopped("w:1", 2, KEY)]).task == "w:0"

    def at(time: str, log: bytes) -> bytes:
        return b"".join(b"%s %s\n" % (time.encode(), line) for line in log.splitlines())

    early, late = at("2024-01-02 03:04:05.5", KEY), at("2024-01-02 03:05:00", OOM)
    assert verdict([failed("w:0", 1, late), stopped("w:1", 2, early)]).task == "w:1"
    assert verdict([failed("w:0", 1, late), failed("w:1", 99, early)]).task == "w:1"
    assert verdict([failed("w:0", 1, early), stopped("w:1", 2, late)]).task == "w:0"


def suspects(*results: TaskResult) -> list[tuple[str, str]]:
    return [(suspect.task, suspect.kind) for suspect in verdict(results).suspects]


def test_tasks_that_were_waited_for_in_vain_are_named() -> None:
    waiting = [failed(f"w:{n}", 10, TIMEOUT.replace(b"rank1", b"rank%d" % n)) for n in range(3)]
    hung, left = TaskResult("w:3", State.STOPPED, 11), TaskResult("w:3", State.SUCCEEDED, 2)
    assert suspects(*waiting, hung) == [("w:3", "silent")]
    assert suspects(*waiting, left) == [("w:3", "left")]
    assert suspects(waiting[0], *(TaskResult(f"w:{n}", State.STOPPED, 11) for n in (1, 2, 3))) == []
    assert suspects(*waiting[:2], failed("w:2", 10, OOM), hung) == []
    assert suspects(*waiting, TaskResult("evaluator:0", State.SUCCEEDED, 2)) == []


def test_a_rank_that_a_log_names_is_a_task_where_each_is_one_rank() -> None:
    barrier = b"[rank0]: RuntimeError: [Rank 0]: Rank 2 failed to pass monitoredBarrier in 30000 ms\n"
    stops = [TaskResult(f"w:{n}", State.STOPPED, 11) for n in (1, 2, 3)]
    assert suspects(failed("w:0", 10, barrier), *stops) == [("w:2", "silent")]
    assert suspects(failed("w:1", 10, barrier), TaskResult("w:0", State.STOPPED, 11), *stops[1:]) == []
    assert json.loads(json.dumps(verdict([failed("w:0", 10, barrier), *stops]).to_json()))["suspects"]


def test_peers_are_not_suspected_when_a_remote_service_is_down() -> None:
    down = b"urllib.error.HTTPError: HTTP Error 503: Service Unavailable\n"
    assert suspects(failed("w:0", 10, down), TaskResult("w:1", State.SUCCEEDED, 2)) == []
