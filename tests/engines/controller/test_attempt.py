"""One attempt of a job, by tables: what happens, in turns; what the controller then does and announces; the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.contract import DISK_FULL, STOPPED_BY_COMPLETION, STOPPED_BY_USER
from kedge.engines.base import HookRetrying, Started, Task
from kedge.engines.controller import attempt as module
from kedge.engines.controller.explanation import explain, root_task
from kedge.engines.controller.judge import judge
from kedge.errors import CannotRun
from kedge.policy import completion
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.backend import failed, stopped, succeeded

from .scripted import A, B, C, Scene, Turns, orders, plan, shown, two_roles

FAILED, STOPPED, SUCCEEDED = State.FAILED, State.STOPPED, State.SUCCEEDED
BEGIN = ["attempt-started", "place 0"]
BOTH = [*BEGIN, "task-launched w:0", "start w:0", "task-launched w:1", "start w:1"]
FULL = {"reason": DISK_FULL, "message": "the file system is full"}
P = Task("ps", 0)


def ask() -> None:
    """Stands for the scene's stop request in a table."""
    raise AssertionError


def script(scene: Scene, turns: Turns) -> Turns:
    return tuple(tuple(scene.ask if each is ask else each for each in turn) for turn in turns)


def done(task: Task, code: int) -> str:
    return f"task-completed {task} {code}"


def test_all_tasks_start_in_the_order_of_the_file_and_all_must_end(scene: Scene) -> None:
    verdict = scene.attempt(plan(), (Started(A), Started(B)), (succeeded(B),), (succeeded(A),))
    assert (verdict.outcome, verdict.code, verdict.task) == (SUCCEEDED, 0, None)
    assert scene.said == [*BOTH, done(B, 0), done(A, 0)]
    assert scene.states == [SUCCEEDED, SUCCEEDED]


@pytest.mark.parametrize("short_sec", [0.0, 1000.0])
def test_only_a_job_that_is_not_short_loads_what_a_failure_needs(
    scene: Scene, short_sec: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kedge.engines.controller.judge._SHORT_JOB_SEC", short_sec)
    scene.attempt(plan(), (succeeded(A),), (succeeded(B),))
    assert (scene.judging.loads_at is None) is (short_sec == 0.0)


# Two tasks end: (plan, what happens, code of the verdict, the task that decides, states, calls besides the starts).
TWO_ENDS: list[tuple[dict[str, Any], Turns, int, Task | None, list[str], list[str]]] = [
    ({}, ((failed(A), succeeded(B)),), 1, A, [FAILED, SUCCEEDED], ["stop w:1"]),
    ({}, ((succeeded(B), failed(A)),), 1, A, [FAILED, SUCCEEDED], []),
    ({}, ((failed(A),), (succeeded(B),)), 1, A, [FAILED, SUCCEEDED], ["stop w:1"]),
    ({}, ((failed(A),), (stopped(B),)), 1, A, [FAILED, STOPPED], ["stop w:1"]),
    ({}, ((failed(A, 2), failed(B, 3)),), 2, A, [FAILED, FAILED], ["stop w:1"]),
    ({}, ((failed(B, 3), failed(A, 2)),), 3, B, [FAILED, FAILED], ["stop w:0"]),
    ({}, ((failed(B, 3),), (failed(A, 2),)), 3, B, [FAILED, FAILED], ["stop w:0"]),
    # A stop from outside that nobody here asked for is a failure.
    ({}, ((stopped(A),), (stopped(B),)), 143, A, [FAILED, STOPPED], ["stop w:1"]),
    ({"min_succeeded": 1}, ((succeeded(A), succeeded(B)),), 0, A, [SUCCEEDED, SUCCEEDED], ["stop w:1"]),
    ({"min_succeeded": 1}, ((succeeded(B),), (stopped(A),)), 0, B, [STOPPED, SUCCEEDED], ["stop w:0"]),
    ({"min_succeeded": 1}, ((succeeded(A), failed(B)),), 0, A, [SUCCEEDED, FAILED], ["stop w:1"]),
    ({"min_succeeded": 1}, ((failed(B), succeeded(A)),), 1, B, [SUCCEEDED, FAILED], ["stop w:0"]),
    ({"min_failed": 2}, ((failed(A, 2), failed(B, 3)),), 3, B, [FAILED, FAILED], []),
    ({"min_failed": 2}, ((failed(A), succeeded(B)),), 0, None, [FAILED, SUCCEEDED], []),
    ({"min_failed": -1}, ((failed(A), failed(B)),), 0, None, [FAILED, FAILED], []),
    ({"min_failed": -1, "min_succeeded": 2}, ((succeeded(A), succeeded(B)),), 0, B, [SUCCEEDED, SUCCEEDED], []),
    ({"every": True}, ((failed(A, 2), failed(B, 3)),), 2, A, [FAILED, FAILED], []),
    ({"every": True}, ((failed(B, 3),), (succeeded(A),)), 3, B, [SUCCEEDED, FAILED], []),
    ({"every": True}, ((succeeded(B),), (succeeded(A),)), 0, None, [SUCCEEDED, SUCCEEDED], []),
]


@pytest.mark.parametrize(("keys", "turns", "code", "decider", "states", "calls"), TWO_ENDS, ids=shown)
def test_the_end_that_comes_first_decides(
    scene: Scene,
    keys: dict[str, Any],
    turns: Turns,
    code: int,
    decider: Task | None,
    states: list[str],
    calls: list[str],
) -> None:
    verdict = scene.attempt(plan(**keys), *turns)
    assert verdict.outcome == (FAILED if code else SUCCEEDED)
    assert verdict.code == code
    assert (verdict.task and (verdict.task.role, verdict.task.index)) == decider
    assert scene.states == states
    assert [each for each in scene.said if each.startswith(("stop ", "kill ", "end_grace "))] == calls


def test_what_completion_stops_has_a_code_of_its_own(scene: Scene) -> None:
    scene.attempt(plan(), (failed(A),), (stopped(B),))
    assert scene.said == [*BOTH, done(A, 1), "stop w:1", done(B, STOPPED_BY_COMPLETION)]


def test_each_role_has_conditions_of_its_own(scene: Scene) -> None:
    both = two_roles((1, 1, 1), (1, -1, -1))
    verdict = scene.attempt(both, (failed(P),), (succeeded(A),))
    assert (verdict.outcome, verdict.task and verdict.task.role) == (SUCCEEDED, "w")
    assert scene.states == [SUCCEEDED, FAILED]


def test_two_of_three_failures_stop_the_third(scene: Scene) -> None:
    verdict = scene.attempt(plan(3, min_failed=2), (failed(C), failed(A)), (stopped(B),))
    assert verdict.task is not None
    assert (verdict.task.index, scene.states) == (0, [FAILED, STOPPED, FAILED])


# A stop request and the end of the only task, in every order.
@pytest.mark.parametrize("turns", orders(ask, succeeded(A)), ids=shown)
def test_a_stop_and_a_good_end(scene: Scene, turns: Turns) -> None:
    verdict = scene.attempt(plan(1), *script(scene, turns), late=turns[-1] == (ask,))
    came_first = turns == ((ask,), (succeeded(A),))
    assert verdict.code == (STOPPED_BY_USER if came_first else 0)
    assert scene.states == [SUCCEEDED]
    assert ("stop w:0" in scene.said) == came_first
    assert ("stop-requested" in scene.said) == (turns != ((succeeded(A),), (ask,)))


@pytest.mark.parametrize("turns", orders(ask, failed(A)), ids=shown)
def test_a_stop_and_a_failure(scene: Scene, turns: Turns) -> None:
    verdict = scene.attempt(plan(1), *script(scene, turns), late=turns[-1] == (ask,))
    came_first = turns == ((ask,), (failed(A),))
    assert verdict.code == (STOPPED_BY_USER if came_first else 1)
    assert scene.states == [FAILED]  # it did not end by the stop


@pytest.mark.parametrize("turns", orders(failed(A), ask), ids=shown)
def test_a_stop_a_failure_and_a_task_that_runs_on(scene: Scene, turns: Turns) -> None:
    verdict = scene.attempt(plan(), *script(scene, turns), (stopped(B),))
    came_first = turns == ((ask,), (failed(A),))
    assert verdict.code == (STOPPED_BY_USER if came_first else 1)
    assert scene.states == [FAILED, STOPPED]
    assert scene.said.count("stop w:1") == 1
    assert scene.said[-1] == done(B, STOPPED_BY_USER if came_first else STOPPED_BY_COMPLETION)


def test_a_stop_stops_every_task(scene: Scene) -> None:
    verdict = scene.attempt(plan(), (scene.ask,), (stopped(B), stopped(A)))
    assert verdict is completion.STOPPED
    ends = [done(B, STOPPED_BY_USER), done(A, STOPPED_BY_USER)]
    assert scene.said == [*BOTH, "stop-requested", "stop w:0", "stop w:1", *ends]
    assert scene.facts[JobEvent.STOP_REQUESTED] == {"by": "Ctrl-C", "kill": False, "interrupted": False}


def test_a_second_stop_ends_the_grace(scene: Scene) -> None:
    scene.attempt(plan(1), (scene.ask,), (scene.ask,), (stopped(A),))
    assert scene.said[4:] == ["stop-requested", "stop w:0", "stop-requested", "end_grace w:0", done(A, STOPPED_BY_USER)]
    assert scene.facts[JobEvent.STOP_REQUESTED]["kill"]


def test_two_stops_at_once_are_a_stop_without_grace(scene: Scene) -> None:
    scene.attempt(plan(1), (scene.ask, scene.ask), (stopped(A),))
    assert scene.said[4:] == ["stop-requested", "stop w:0", "end_grace w:0", done(A, STOPPED_BY_USER)]


@pytest.mark.parametrize("turns", orders(ask, stopped(A)), ids=shown)
def test_the_end_of_the_grace_and_the_end_of_a_task(scene: Scene, turns: Turns) -> None:
    verdict = scene.attempt(plan(), (scene.ask,), *script(scene, turns), (stopped(B),))
    assert verdict is completion.STOPPED
    assert scene.states == [STOPPED, STOPPED]
    graces = [each for each in scene.said if each.startswith("end_grace")]
    assert graces == (["end_grace w:0", "end_grace w:1"] if turns[0] == (ask,) else ["end_grace w:1"])


def test_a_stop_before_anything_has_started_starts_little(scene: Scene) -> None:
    scene.when[JobEvent.ATTEMPT_STARTED] = scene.ask
    verdict = scene.attempt(plan(3), (stopped(A),))
    assert verdict is completion.STOPPED
    ends = [done(Task("w", index), STOPPED_BY_USER) for index in (1, 2, 0)]
    assert sorted(scene.said[5:]) == sorted(["stop w:0", *ends])
    assert scene.states == [STOPPED] * 3


def test_a_stop_between_two_starts(scene: Scene) -> None:
    scene.attempt(plan(), (stopped(A),), at_start={A: [scene.ask]})
    assert scene.states == [STOPPED, STOPPED]
    assert "start w:1" not in scene.said


def test_a_task_that_ends_before_the_next_has_started(scene: Scene) -> None:
    verdict = scene.attempt(plan(3), at_start={A: [Started(A), failed(A)]})
    assert (verdict.code, scene.states) == (1, [FAILED, STOPPED, STOPPED])
    assert "start w:1" not in scene.said


def test_a_task_that_succeeds_before_the_next_has_started_stops_nothing(scene: Scene) -> None:
    verdict = scene.attempt(plan(), (succeeded(B),), at_start={A: [succeeded(A)]})
    assert (verdict.code, scene.states) == (0, [SUCCEEDED, SUCCEEDED])


@pytest.mark.parametrize("turns", orders(Started(A), succeeded(A)), ids=shown)
def test_a_start_and_an_end(scene: Scene, turns: Turns) -> None:
    verdict = scene.attempt(plan(), *turns, (succeeded(B),))
    assert (verdict.code, scene.states) == (0, [SUCCEEDED, SUCCEEDED])


@pytest.mark.parametrize("turns", orders(Started(A), ask), ids=shown)
def test_a_start_and_a_stop(scene: Scene, turns: Turns) -> None:
    verdict = scene.attempt(plan(1), *script(scene, turns), (stopped(A),))
    assert (verdict.code, scene.states) == (STOPPED_BY_USER, [STOPPED])
    assert scene.said.count("stop w:0") == 1


@pytest.mark.parametrize("turns", [*orders(HookRetrying(A, "data", "busy", 2, 3, 0.5), ask)], ids=shown)
def test_a_hook_that_is_tried_again_is_announced_also_while_it_stops(scene: Scene, turns: Turns) -> None:
    scene.attempt(plan(1), *script(scene, turns), (stopped(A),))
    facts = {"step": "data", "message": "busy", "next_try": 2, "tries": 3, "delay_sec": 0.5}
    assert scene.facts[JobEvent.HOOK_RETRYING] == {"role": "w", "index": 0, **facts}
    assert scene.states == [STOPPED]


def test_a_ladder_that_does_not_end_a_task_is_enforced_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SEC", -1.0)
    scene.attempt(plan(1), (scene.ask,), (), (stopped(A, killed=True),))
    assert scene.said[4:] == ["stop-requested", "stop w:0", "kill w:0", done(A, STOPPED_BY_USER)]


def test_the_end_of_a_grace_that_does_not_end_a_task_is_enforced(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_AFTER_KILL_SEC", -1.0)
    scene.attempt(plan(1), (scene.ask,), (), (scene.ask,), (stopped(A),))
    assert scene.said[4:-1] == ["stop-requested", "stop w:0", "stop-requested", "end_grace w:0", "kill w:0"]


@pytest.mark.parametrize("turns", orders(stopped(A), stopped(B)), ids=shown)
def test_a_task_that_has_ended_is_not_killed(scene: Scene, monkeypatch: pytest.MonkeyPatch, turns: Turns) -> None:
    monkeypatch.setattr(module, "PATIENCE_SEC", 0.0)
    scene.attempt(plan(), (scene.ask, *turns[0]), *turns[1:])
    first = {each.task for each in turns[0] if not callable(each)}
    assert {each for each in scene.said if each.startswith("kill")} <= {f"kill {task}" for task in {A, B} - first}


@pytest.mark.parametrize("gang", [True, False])
@pytest.mark.parametrize("turns", orders(failed(A, **FULL), failed(B, 3)), ids=shown)
def test_a_full_disk_decides_before_any_policy(scene: Scene, gang: bool, turns: Turns) -> None:
    verdict = scene.attempt(plan(min_failed=2, gang=gang), *turns)
    assert (verdict.outcome, verdict.text) == (FAILED, "the file system is full")
    assert scene.last is not None
    assert scene.last.disk_full
    assert scene.states == [FAILED, FAILED]
    assert "stop w:0" not in scene.said  # it has ended


def test_a_full_disk_stops_the_others(scene: Scene) -> None:
    verdict = scene.attempt(plan(3, min_failed=-1), (failed(B, **FULL),), (stopped(A), failed(C, **FULL)))
    assert (verdict.code, scene.states) == (1, [STOPPED, FAILED, FAILED])
    assert [each for each in scene.said if each.startswith("stop")] == ["stop w:0", "stop w:2"]


@pytest.mark.parametrize("turns", orders(failed(A, **FULL), ask), ids=shown)
def test_a_full_disk_and_a_stop(scene: Scene, turns: Turns) -> None:
    verdict = scene.attempt(plan(1), *script(scene, turns), late=turns[-1] == (ask,))
    came_first = turns == ((ask,), (failed(A, **FULL),))
    assert verdict.code == (STOPPED_BY_USER if came_first else 1)
    assert scene.last is not None
    assert (scene.last.disk_full, scene.states) == (True, [FAILED])


def test_a_full_disk_before_anything_runs(scene: Scene) -> None:
    scene.attempt(plan(3), at_start={A: [failed(A, **FULL)]})
    assert scene.states == [FAILED, STOPPED, STOPPED]


def test_without_a_gang_a_task_is_tried_again_by_itself(scene: Scene) -> None:
    verdict = scene.attempt(plan(gang=False, task_retries=1), (failed(A),), (succeeded(B),), (succeeded(A),))
    assert (verdict.code, scene.states) == (0, [SUCCEEDED, SUCCEEDED])
    again = ["task-retrying w:0 1", "task-launched w:0", "start w:0 again"]
    assert scene.said == [*BOTH, *again, done(B, 0), done(A, 0)]
    assert scene.facts[JobEvent.TASK_RETRYING]["why"] == "no cause found, retry 1 of 1"
    assert scene.facts[JobEvent.TASK_LAUNCHED]["task_attempt"] == 1


def test_a_task_fails_for_good_when_its_retries_are_used(scene: Scene) -> None:
    verdict = scene.attempt(plan(1, gang=False, task_retries=1), (failed(A, 2),), (failed(A, 3),))
    assert (verdict.code, scene.states) == (3, [FAILED])
    assert "the only retry is used" in scene.facts[JobEvent.TASK_COMPLETED]["why"]


def test_in_a_gang_no_task_is_tried_again(scene: Scene) -> None:
    scene.attempt(plan(1, gang=True, task_retries=5), (failed(A),))
    assert scene.said[-1] == done(A, 1)
    assert "why" not in scene.facts[JobEvent.TASK_COMPLETED] or scene.facts[JobEvent.TASK_COMPLETED]["why"] == ""


def test_two_tasks_are_tried_again_at_once(scene: Scene) -> None:
    made = plan(gang=False, task_retries=1)
    verdict = scene.attempt(made, (failed(B), failed(A)), (succeeded(A), succeeded(B)))
    assert (verdict.code, scene.states) == (0, [SUCCEEDED, SUCCEEDED])
    assert sorted(each for each in scene.said if each.endswith("again")) == ["start w:0 again", "start w:1 again"]


@pytest.mark.parametrize("turns", orders(failed(A, retry_after_sec=3000.0), ask), ids=shown)
def test_a_retry_of_a_task_and_a_stop(scene: Scene, turns: Turns) -> None:
    stop_first = turns[0] == (ask,)
    verdict = scene.attempt(plan(1, gang=False, task_retries=1), *script(scene, turns))
    assert verdict is completion.STOPPED
    assert ("task-retrying w:0 1" in scene.said) != stop_first
    assert scene.states == [FAILED if stop_first else STOPPED]
    assert "start w:0 again" not in scene.said


def test_a_task_that_waits_for_its_retry_when_another_decides(scene: Scene) -> None:
    made = plan(gang=False, task_retries=1, min_succeeded=1)
    verdict = scene.attempt(made, (failed(A, retry_after_sec=3000.0),), (succeeded(B),))
    assert (verdict.code, scene.states) == (0, [STOPPED, SUCCEEDED])


def test_nothing_starts_when_there_is_no_place(scene: Scene) -> None:
    with pytest.raises(CannotRun, match="too few ports"):
        scene.attempt(plan(), refuses={0: CannotRun("too few ports")})
    assert scene.said == BEGIN


@pytest.mark.parametrize(
    ("keys", "turns", "text"),
    [
        ({}, ((failed(A, message="it broke"), succeeded(B)),), "w:0: it broke"),
        ({"min_failed": 2}, ((failed(A), succeeded(B)),), "Succeeded by its completion policy; 1 of 2 tasks failed"),
        ({}, ((failed(A, 139), succeeded(B)),), "w:0: native_crash"),
        ({}, ((ask,), (stopped(A), stopped(B))), completion.STOPPED.text),
    ],
)
def test_a_verdict_in_words(scene: Scene, keys: dict[str, Any], turns: Turns, text: str) -> None:
    verdict = scene.attempt(plan(**keys), *script(scene, turns))
    assert scene.last is not None
    tasks = scene.last.tasks
    assert explain(verdict, tasks, judge(tasks.values())) == text


def test_a_verdict_of_tasks_that_all_fail_alike_names_the_one_that_is_shown_as_root(scene: Scene) -> None:
    """Also if another one was the first that the controller has heard of."""
    first, second = failed(A, message="it broke first"), failed(B, message="it broke, too")
    verdict = scene.attempt(plan(), (second, first))
    assert scene.last is not None
    tasks = scene.last.tasks
    assert explain(verdict, tasks, judged := judge(tasks.values())) == "w:0: it broke first"
    assert judged.task == "w:0"


def test_the_root_is_the_task_that_failed_first(scene: Scene) -> None:
    late, early = "2026-01-01T00:00:09Z", "2026-01-01T00:00:01Z"
    scene.attempt(plan(min_failed=2), (failed(A, ended=late), failed(B, ended=early)))
    assert scene.last is not None
    root = root_task(scene.last.tasks, judge(scene.last.tasks.values()))
    assert root is not None
    assert root.task == B


def test_a_task_whose_place_is_lost_is_not_tried_again_alone(scene: Scene) -> None:
    made = plan(gang=False, task_retries=5)
    verdict = scene.attempt(made, (failed(A, -1001)._replace(place_lost=True),), (stopped(B),))
    assert (verdict.outcome, verdict.code) == (FAILED, -1001)
    assert scene.said == [*BOTH, done(A, -1001), "stop w:1", done(B, STOPPED_BY_COMPLETION)]
