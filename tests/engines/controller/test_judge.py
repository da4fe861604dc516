"""What failed attempts say about another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.contract import COMMAND_FAILED, CURRENT, PERHAPS_MEMORY, USER_ALL, Report
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import STOPPED, Evidence
from kedge.engines.base import Task
from kedge.engines.container.ends import failures
from kedge.engines.container.images.images import ImageProblem
from kedge.engines.controller import reports
from kedge.engines.controller.judge import Judge, judge
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.states import History, TaskState
from kedge.policy.codes import Behaviour
from kedge.policy.retry_decision import Failure
from kedge.runs.folder import Run
from kedge.states import State

TASK = Task("worker", 0)


def ended(run: Run, attempt: int, code: int, log: str = "", reason: str = COMMAND_FAILED) -> Report:
    folder = run.task("worker", 0, attempt)
    (folder / USER_ALL).mkdir(parents=True)
    (folder / USER_ALL / CURRENT).write_text(log)
    report = reports.ended(Launch(TASK, str(folder), attempt, 0, 0), code, reason, "it ended")
    if reason == PERHAPS_MEMORY:
        return report
    found = classify(Evidence((("user-all", log.encode()),), code))
    return report._replace(user_exit_code=code, diagnosis=found.to_json())


def failures_of(run: Run, *endings: tuple[int, str]) -> list[Failure]:
    """What is known of attempts that ended with these codes and logs, one after the other."""
    judging, before, found = Judge(run), History(), []
    for number, (code, log) in enumerate(endings):
        task = TaskState(TASK, State.FAILED, report=ended(run, number, code, log))
        found.append(judging.failure(judge([task]), code, number, task, before))
    return found


NO_MODULE = "ModuleNotFoundError: No module named 'x'\n"
NO_FILE = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
FileNotFoundError: [Errno 2] No such file or directory: 'd'
"""
TOO_MANY = "HTTP Error 429: Too Many Requests\n"


@pytest.mark.parametrize(
    ("first", "second", "again"),
    [
        ((1, NO_MODULE), (1, NO_MODULE), True),
        ((127, ""), (127, ""), True),  # a guess, but what it guesses is permanent
        ((1, NO_FILE), (1, NO_FILE), True),
        ((1, NO_FILE), (1, NO_FILE.replace("line 1", "line 2")), False),
        ((127, "step 1\n"), (127, "step 2\n"), False),
        ((1, NO_MODULE), (127, ""), False),
        ((1, TOO_MANY), (1, TOO_MANY), False),  # a service
        ((1, "OSError: [Errno 98] Address already in use\n"),) * 2 + (False,),
        ((1, ""), (1, ""), False),  # of an unknown cause
        ((139, ""), (139, ""), False),  # an exit code alone, of what may pass
    ],
)
def test_only_the_program_fails_the_same_way_again(
    tmp_path: Path, first: tuple[int, str], second: tuple[int, str], again: bool
) -> None:
    assert [failure.again for failure in failures_of(Run(tmp_path), first, second)] == [False, again]


@pytest.mark.parametrize(
    "said",
    [
        "toomanyrequests: You have reached your pull rate limit",
        "reading manifest 1 in r.io/x: received unexpected HTTP status: 503 Service Unavailable",
        'Get "https://r.io/v2/": read tcp 1.2.3.4:5->6.7.8.9:443: read: connection reset by peer',
    ],
)
def test_a_registry_that_refuses_for_now_is_asked_until_the_limit(tmp_path: Path, said: str) -> None:
    judging, before, found = Judge(Run(tmp_path)), History(), []
    for attempt in range(2):
        launch = Launch(TASK, str(Run(tmp_path).task("worker", 0, attempt)), attempt, 0, 0)
        problem = ImageProblem(f"the image r.io/x:1 cannot be pulled: {said}")
        task = TaskState(TASK, State.FAILED, report=failures.of_problem(launch, problem))
        found.append(judging.failure(judge([task]), 254, attempt, task, before))
    assert [(f.behaviour, f.sure, f.again) for f in found] == [(Behaviour.TRANSIENT, True, False)] * 2


def test_the_same_failure_twice_comes_one_after_the_other(tmp_path: Path) -> None:
    found = failures_of(Run(tmp_path), (127, ""), (1, TOO_MANY), (127, ""), (127, ""))
    assert [failure.again for failure in found] == [False, False, False, True]


def test_sigkill_that_nobody_saw_is_perhaps_memory(tmp_path: Path) -> None:
    run = Run(tmp_path)
    task = TaskState(TASK, State.FAILED, report=ended(run, 0, 137, reason=PERHAPS_MEMORY))
    judged = judge([task])
    failure = Judge(run).failure(judged, 137, 0, task, History())
    assert (failure.cause, failure.unseen) == ("sigkill_unattributed", True)
    assert judged.diagnosis is not None
    assert "perhaps it needed more memory" in judged.diagnosis.meaning
    assert not failures_of(Run(tmp_path / "other"), (137, ""))[0].unseen


def test_rows_of_the_job_s_own_exit_spec_are_known_by_their_code(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.exit_spec.write_text('[{"containerExitCode": 137, "patterns": [], "behavior": "PERMANENT"}]')
    known, other = failures_of(run, (137, ""), (143, ""))
    assert (known.row, known.spec, other.row) == (Behaviour.PERMANENT, "the exit spec", None)


EARLY, LATE = "2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z"


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("listed", [(0, 1), (1, 0)])
def test_the_root_is_what_failed_first_whichever_end_was_seen_first(
    tmp_path: Path, first: int, listed: tuple[int, int]
) -> None:
    tasks = []
    for index in listed:
        report = ended(Run(tmp_path / str(index)), 0, 1, NO_MODULE)
        when = EARLY if index == first else LATE
        tasks.append(TaskState(Task("worker", index), State.FAILED, report=report._replace(ended=when)))
    assert judge(tasks).task == f"worker:{first}"


@pytest.mark.parametrize("state", [State.STOPPED, State.SUCCEEDED])
def test_a_task_that_did_not_fail_is_no_root(tmp_path: Path, state: State) -> None:
    early = ended(Run(tmp_path / "a"), 0, 1, NO_MODULE)._replace(ended=EARLY)
    late = ended(Run(tmp_path / "b"), 0, 1, NO_MODULE)._replace(ended=LATE)
    other = TaskState(Task("worker", 0), state, report=early)
    judged = judge([other, TaskState(Task("worker", 1), State.FAILED, report=late)])
    assert judged.task == "worker:1"
    assert judge([other]).task is None


def test_a_failed_task_whose_supervisor_saw_a_stop_was_ended_by_a_stranger(tmp_path: Path) -> None:
    report = ended(Run(tmp_path), 0, 143)
    stop = {**(report.diagnosis or {}), "cause": STOPPED}
    judged = judge([TaskState(TASK, State.FAILED, report=report._replace(diagnosis=stop))])
    assert judged.diagnosis is not None
    assert judged.diagnosis.cause not in (STOPPED, "unknown")


def test_without_reports_nothing_is_known() -> None:
    assert judge([TaskState(TASK, State.STOPPED), TaskState(TASK, State.WAITING)]).diagnosis is None


@pytest.mark.parametrize(("before_stop", "root"), [(True, "worker:0"), (False, "worker:1")])
def test_a_stopped_task_is_the_root_if_it_had_failed_before_the_stop(
    tmp_path: Path, before_stop: bool, root: str
) -> None:
    report = ended(Run(tmp_path / "a"), 0, 1, NO_MODULE)
    report = report._replace(diagnosis={**(report.diagnosis or {}), "before_stop": before_stop})
    victim = TaskState(Task("worker", 1), State.FAILED, report=ended(Run(tmp_path / "b"), 0, 1))
    assert judge([TaskState(TASK, State.STOPPED, report=report), victim]).task == root
