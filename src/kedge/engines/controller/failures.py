"""What explains failures: causes of exit codes without a diagnosis, and what matters for a retry. Slow to load."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from kedge.contract import CURRENT, PERHAPS_MEMORY, USER_ALL, Report
from kedge.diagnose.decide import job
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.decide.job import JobVerdict
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.log import progress
from kedge.diagnose.model import GUESS, PERMANENT, SURE, UNKNOWN, Diagnosis, Evidence
from kedge.diagnose.rules import packaged
from kedge.engines.controller.states import History, TaskState
from kedge.light.functools import cache
from kedge.policy.codes import Behaviour
from kedge.policy.retry_decision import Failure
from kedge.runs.folder import Run
from kedge.runs.logs import tail

_UNSEEN = (
    "The whole task, including its supervisor, was killed by SIGKILL, so the reason is unknown; perhaps it needed "
    "more memory than its limit."
)


def of_code(report: Report) -> Diagnosis:
    """The diagnosis of the exit code alone."""
    found = _of_number(report.user_exit_code or report.exit_code)
    return found._replace(meaning=_UNSEEN) if report.reason == PERHAPS_MEMORY else found


@cache  # a thousand tasks may end with the same code at once, and each reading of the rules takes milliseconds
def _of_number(code: int) -> Diagnosis:
    return classify(Evidence(logs=(), exit_code=code))


def of_loss(cause: str, text: str) -> Diagnosis:
    """The diagnosis of a job whose place was taken away for this cause."""
    known = packaged.content().causes[cause]
    remedy = tuple(known["remedy"])
    return Diagnosis(cause, known["behaviour"], SURE, known["owner"], f"{known['meaning']} {text}.", remedy)


class Failures:
    """Collects what matters for a retry after a failure, including the rows of the user's own exit spec, if one is
    among the files of `rules`."""

    def __init__(self, run: Run, rules: Iterable[str] = ()) -> None:
        self._run = run
        self._rows = exitspec.load(str(run.exit_spec)).behaviours() if run.exit_spec.exists() else {}
        names = [os.path.basename(path) for path in rules if exitspec.is_exit_spec(path)]
        self._spec = names[0] if names else Failure._field_defaults["spec"]

    def failure(self, judged: JobVerdict, code: int, attempt: int, root: TaskState | None, before: History) -> Failure:
        """What matters of an attempt that completed with `code`; `root` is the task that `judged` names. The failure is
        recorded in `before` as the latest one."""
        known = Failure(code, row=self._row(code), spec=self._spec)
        found = judged.diagnosis
        if found is None or root is None or root.report is None:
            before.forget()
            return known
        if root.report.time_limit:  # another try is only one that the user asked for, and may hang in the same way
            before.forget()
            behaviour = Behaviour(found.behaviour)
            return Failure(root.report.exit_code, cause=found.cause, behaviour=behaviour, sure=True)
        return known._replace(
            cause=found.cause,
            behaviour=Behaviour(found.behaviour),
            sure=found.confidence == SURE,
            again=self._again(found, root, attempt, before),
            unseen=root.report.reason == PERHAPS_MEMORY,
            retry_after_sec=root.report.retry_after_sec or 0.0,
        )

    def _row(self, code: int) -> Behaviour | None:
        return Behaviour(self._rows[code]) if code in self._rows else None

    def _again(self, found: Diagnosis, root: TaskState, attempt: int, before: History) -> bool:
        """Whether the program failed like the previous time, at the same place and without progress."""
        if not _of_program(found):
            before.forget()
            return False
        last, reached = before.failure, self._reached(root, attempt)
        before.failure = found, reached
        return last is not None and job.repeats(last[0], found) and not progress.advanced(last[1], reached)

    def _reached(self, task: TaskState, attempt: int) -> Mapping[str, int]:
        folder = self._run.task(task.task.role, task.task.task_index, attempt, task.task_attempt)
        return progress.reached(tail(folder, f"{USER_ALL}/{CURRENT}", progress.TAIL))


def _of_program(found: Diagnosis) -> bool:
    """Whether this is a failure of the program that can be compared with an earlier one. Failures of the surroundings
    may differ with every try, and failures that may pass need more than a guess or an exit code to count as equal."""
    if found.cause == UNKNOWN or packaged.is_around(found.cause):
        return False
    return found.behaviour == PERMANENT or (found.confidence != GUESS and bool(found.rule or found.frame))
