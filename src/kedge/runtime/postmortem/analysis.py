"""Why an attempt failed, for its report: the verdict of the exit specification, then kedge's own diagnosis, both from
the same evidence. Loaded only when an attempt has failed."""

from __future__ import annotations

import os
import sys
import time

from kedge import contract
from kedge.diagnose.exit_spec import termination
from kedge.diagnose.exit_spec.termination import ExitSpecVerdict
from kedge.light.types import TYPE_CHECKING, Any, Iterator, NamedTuple
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.postmortem import collect, isolated
from kedge.runtime.postmortem.case import FailedAttempt
from kedge.runtime.postmortem.collect import Collected
from kedge.runtime.process import procfs
from kedge.runtime.session import Clock, Session

if TYPE_CHECKING:
    from types import ModuleType

_LIMIT_SEC = 10.0
_LIMIT_STOPPING_SEC = 3.0  # part of the grace period that is reserved for the runtime (HOOK_RESERVE_SEC)


class Analysis(NamedTuple):
    """What is known about a failure. `exit_code` is the container's, None where the exit specification was not used;
    `termination` is the termination message."""

    exit_code: int | None = None
    termination: str | None = None
    diagnosis: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None


def analyse(session: Session, result: AttemptOutcome, clock: Clock) -> Analysis:
    """Collect evidence and find the cause, within limits of time and memory. Problems of the analysis are logged."""
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


def _case(session: Session, result: AttemptOutcome, clock: Clock) -> FailedAttempt:
    return FailedAttempt(
        spec=session.spec,
        outcome=result,
        started=clock.time,
        tick=clock.tick,
        ended=time.time_ns(),
        oom=session.oom_kills,
        secrets=session.log.secrets,
        kedge=_own_processes(session),
        open_files=session.options.open_files,
        site=session.options.site,
        removed=session.logs.removed_bytes.get(contract.USER_ALL, 0),
        after_stop=session.logs.bytes_after_stop,
    )


def _own_processes(session: Session) -> tuple[int, ...]:
    """The supervisor, and on a cluster its keeper and the keeper's agents: they are in the task's control group, too.
    Agents are forks of their keeper, so their command line is the same."""
    supervisor = os.getpid()
    return (supervisor,) if session.options.control is None else (supervisor, *procfs.forks(os.getppid()))


def _examine(case: FailedAttempt) -> Iterator[dict[str, Any]]:
    """Yield `exit_code` and `termination` (the container's code and message, unless the runtime itself failed), then
    `diagnosis` and `evidence` in the form of Report. Both come with `notes`, lines for the log."""
    found = collect.collect(case)
    notes: list[str] = []
    patterns = _patterns(case.site, notes)
    if not case.outcome.broken:
        verdict = _verdict(case, found, patterns, notes)
        yield {"exit_code": verdict.code, "termination": _message(case, found, verdict), "notes": notes}
    evidence = collect.summary(found.evidence, patterns.progress(found) if patterns else {})
    diagnosis = patterns.diagnosis(found, case, notes).to_json() if patterns else None
    yield {"diagnosis": diagnosis, "evidence": evidence, "notes": notes}


def _patterns(site: str | None, notes: list[str]) -> ModuleType | None:
    """Import kedge.runtime.postmortem.patterns. `site` is appended to sys.path, so that it shadows no other module."""
    if site:
        sys.path.append(site)
    try:
        from kedge.runtime.postmortem import patterns

        return patterns
    except ImportError as error:
        notes.append(f"failures are classified by exit code only: google-re2 cannot be loaded ({error})")
        return None


def _verdict(case: FailedAttempt, found: Collected, patterns: ModuleType | None, notes: list[str]) -> ExitSpecVerdict:
    """The exit specification is not used for a prerequisite that temporarily could not be fetched."""
    if case.outcome.exit_code == contract.PREREQUISITE_TRANSIENT:
        return ExitSpecVerdict(contract.PREREQUISITE_TRANSIENT)
    if patterns is None:
        return ExitSpecVerdict(_plain_code(case))
    verdict: ExitSpecVerdict = patterns.verdict(found, case.spec.exit_spec, notes)
    return verdict


def _plain_code(case: FailedAttempt) -> int:
    code = case.outcome.user_code
    return case.outcome.exit_code if code is None else contract.container_code(code)


def _message(case: FailedAttempt, found: Collected, verdict: ExitSpecVerdict) -> str:
    logs = found.user.content, found.platform.content
    return termination.message(verdict, case.outcome.user_code, *logs).decode()
