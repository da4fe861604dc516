"""The context of a job that kedge's own loop runs: requests to stop it, its event log, its recorded end."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from kedge.diagnose.decide.job import JobVerdict
from kedge.engines.base import JobOutcome
from kedge.engines.controller.job_log import JobLog, LogGuard
from kedge.engines.controller.stop_requests import Stops
from kedge.errors import EXIT_BUG, KedgeError
from kedge.plan.model import Plan
from kedge.runs import report
from kedge.runs.atomic_files import disk_errors
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.shortages import explained
from kedge.states import State

_LARGEST_VERDICT = 32 << 10  # bytes; runs.liveness reads less than twice as much of the end of a log
Body = Callable[[Stops, JobLog, ExitStack], JobOutcome]


def controlled(
    run: Run, body: Body, plan: Plan | None = None, guard: LogGuard | None = None, stops: Stops | None = None
) -> JobOutcome:
    """Run `body`, close its stack, and record how the job ended, even after an error. `stops` are new ones.

    The record holds all that the report needs besides other events, with `plan` also the lines of the job file: if this
    process is killed before it has written the report, another one can. A full disk is always raised as DiskFull.
    """
    with stops or Stops() as stops, JobLog(run, stops, guard) as log:
        try:
            with disk_errors(run.path), ExitStack() as stack:
                outcome = body(stops, log, stack)
        except Exception as error:  # even a bug: a run without an end would count as lost
            known = error if isinstance(error, KedgeError) else explained(error)
            text = str(known) if known else f"kedge failed: {error!r}"
            log(JobEvent.JOB_COMPLETED, state=State.FAILED, code=None, text=text, exit_code=_exit_code(known))
            report.write_without_verdict(run)
            raise
        if log.disk_full:
            outcome = outcome._replace(state=State.FAILED, text=log.disk_full, disk_full=True)
        facts: dict[str, Any] = {"code": outcome.code, "text": outcome.text, "exit_code": outcome.exit_code}
        facts |= _verdict_facts(outcome.judged, plan)
        log(JobEvent.JOB_COMPLETED, state=outcome.state, **facts)
    return outcome


def _verdict_facts(judged: JobVerdict, plan: Plan | None) -> dict[str, Any]:
    """Why the job failed, as runs.report reads it. Without the other tasks if there are too many for one event."""
    if judged.diagnosis is None:
        return {}
    role = judged.task.partition(":")[0] if judged.task else None
    lines = {one.name: list(one.lines) for one in plan.roles if one.name == role} if plan else {}
    for each in (judged, judged._replace(others=(), suspects=())):
        facts = {"judged": each.to_json(), "lines": lines}
        if len(json.dumps(facts)) <= _LARGEST_VERDICT:
            return facts
    return {}


def _exit_code(error: KedgeError | None) -> int:
    return error.exit_code if error else EXIT_BUG
