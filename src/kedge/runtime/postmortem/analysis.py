"""From a failed attempt to what its report says of the cause. Loaded only then."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kedge import contract
from kedge.runtime.outcome import Outcome
from kedge.runtime.postmortem import isolated
from kedge.runtime.postmortem.case import Case
from kedge.runtime.postmortem.ending import Clock
from kedge.runtime.session import Session

_LIMIT_SEC = 10.0
_LIMIT_STOPPING_SEC = 3.0  # of what the grace period keeps for the end of the task


class Analysis(NamedTuple):
    """What is known of a failure. `exit_code` is the container's, None where the exit specification was not asked;
    `termination` the message for it."""

    exit_code: int | None = None
    termination: str | None = None
    diagnosis: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None


def analyse(session: Session, result: Outcome, clock: Clock) -> Analysis:
    """Collect evidence and find the cause, within bounds. What goes wrong with it is said in the log."""
    case = _case(session, result, clock)
    limit = _LIMIT_STOPPING_SEC if session.supervisor.stopping else _LIMIT_SEC
    answer = isolated.run(session.loop, lambda: _examine(case), limit)
    values = answer.values
    for note in values.pop("notes", []):
        session.log.warning(note)
    if answer.problem:
        session.log.warning(f"The analysis of the failure is not complete: {answer.problem}")
    if answer.traceback:
        session.log.text(answer.traceback)
    return Analysis(**values)


def _examine(case: Case) -> Iterable[Mapping[str, Any]]:
    examined: Iterable[Mapping[str, Any]] = importlib.import_module("kedge.runtime.postmortem.failure").examine(case)
    return examined


def _case(session: Session, result: Outcome, clock: Clock) -> Case:
    return Case(
        spec=session.spec,
        outcome=result,
        started=clock.time,
        tick=clock.tick,
        ended=time.time_ns(),
        oom=session.oom_kills,
        secrets=session.log.secrets,
        supervisor=os.getpid(),
        open_files=session.options.open_files,
        site=session.options.site,
        removed=session.logs.removed_bytes.get(contract.USER_ALL, 0),
        after_stop=session.logs.said_after_stop,
    )
