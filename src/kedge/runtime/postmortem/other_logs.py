"""Other places to find the reason of a failure when the end of the task's own log does not show it."""

from __future__ import annotations

from kedge.diagnose.decide.classify import second_look
from kedge.diagnose.model import Diagnosis, Quote
from kedge.diagnose.rules.ruleset import RuleSet
from kedge.runtime.logs.mask import masked
from kedge.runtime.logs.tails import LogTail
from kedge.runtime.postmortem import earlier_log, work_logs
from kedge.runtime.postmortem.case import FailedAttempt
from kedge.runtime.postmortem.collect import Collected


def look(answer: Diagnosis, found: Collected, case: FailedAttempt, rules: RuleSet) -> Diagnosis:
    """Diagnose again from the earlier part of the task's log and from the logs in the working folder. If they show no
    better cause, return `answer`, with the number of bytes that were not read."""
    before = earlier_log.search(found.user, case.started)
    files = work_logs.collect(case.spec, case.started)
    logs = [
        (before.tail.name, before.tail.content),
        *((file.path, masked(file.content, case.secrets)) for file in files),
    ]
    evidence = found.evidence._replace(logs=tuple(log for log in logs if log[1]), error_file=None)
    again = placed(second_look(answer, evidence, rules), before.tail)
    lines = {file.path: file.lines_before for file in files}
    quotes = tuple(quote._replace(line=quote.line + lines.get(quote.file, 0)) for quote in again.evidence)
    return again._replace(evidence=quotes, unread_bytes=before.unread + case.removed)


def placed(answer: Diagnosis, *tails: LogTail) -> Diagnosis:
    """The diagnosis with its quotes of the logs in `tails` changed to file names and line numbers on disk."""
    known = {tail.name: tail for tail in tails}

    def of(quotes: tuple[Quote, ...]) -> tuple[Quote, ...]:
        return tuple(q._replace(**known[q.file].place(q.line)) if q.file in known else q for q in quotes)

    return answer._replace(evidence=of(answer.evidence), last_words=of(answer.last_words))
